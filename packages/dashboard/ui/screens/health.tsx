/** What the doctor finds: what is wrong, why it matters, and the fix. */
import { Button, Empty } from '@holdfast/lab';
import { Failed, Title, When } from '../parts/bits';
import { useAsked } from '../state/api';
import type { HealthAnswer } from '../state/wire';

const GROUPS = [
  ['problem', 'Problems'],
  ['note', 'Worth knowing'],
  ['ok', 'In order'],
] as const;
/** With many queues what is in order is a thousand lines; nobody looks for those. */
const FOLDED = 60;

const List = ({ findings }: { findings: HealthAnswer['findings'] }) => (
  <ul class="findings">
    {findings.map(({ level, check, text, why, fix }) => (
      <li key={check + text} class={`is-${level}`}>
        <div class="row">
          <code>{check}</code>
          <span class="grow">{text}</span>
        </div>
        {why && <p class="dim">{why}</p>}
        {fix && <pre>{fix}</pre>}
      </li>
    ))}
  </ul>
);

export function Health() {
  const { data, error, reload } = useAsked<HealthAnswer>('api/health', 0);
  return (
    <>
      <Title
        aside={
          <span class="row">
            {data && (
              <span class="dim">
                looked <When at={data.at} />
              </span>
            )}
            <Button onClick={reload}>Look again</Button>
          </span>
        }
      >
        Health
      </Title>
      <Failed error={error} />
      {!data && error === null && (
        <Empty>The doctor looks. With many queues it takes a while…</Empty>
      )}
      {data &&
        GROUPS.map(([level, title]) => {
          const findings = data.findings.filter((finding) => finding.level === level);
          if (findings.length === 0)
            return level === 'problem' && <p class="well">The doctor finds no problem.</p>;
          const head = `${title} (${findings.length})`;
          const folded = level === 'ok' && findings.length > FOLDED;
          return folded ? (
            <details key={level}>
              <summary>{head}</summary>
              <List findings={findings} />
            </details>
          ) : (
            <section key={level}>
              <h2>{head}</h2>
              <List findings={findings} />
            </section>
          );
        })}
    </>
  );
}
