/** What the doctor finds: what is wrong, why it matters, and the fix. */
import { Empty, Failed, Title, When } from '../parts/bits';
import { useAsked } from '../state/api';
import type { HealthAnswer } from '../state/wire';

type Finding = HealthAnswer['findings'][number];
const GROUPS = [
  ['problem', 'Problems'],
  ['note', 'Worth knowing'],
  ['ok', 'In order'],
] as const;
/** With many queues what is in order is a thousand lines; nobody looks for those. */
const FOLDED = 60;

const Found = ({ finding }: { finding: Finding }) => (
  <li class={`is-${finding.level}`}>
    <div class="row">
      <code>{finding.check}</code>
      <span class="grow">{finding.text}</span>
    </div>
    {finding.why && <p class="dim">{finding.why}</p>}
    {finding.fix && <pre>{finding.fix}</pre>}
  </li>
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
            <button type="button" onClick={reload}>
              Look again
            </button>
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
          const found = data.findings.filter((finding) => finding.level === level);
          if (found.length === 0)
            return level === 'problem' && <p class="well">The doctor finds no problem.</p>;
          const list = (
            <ul class="findings">
              {found.map((finding) => (
                <Found key={finding.check + finding.text} finding={finding} />
              ))}
            </ul>
          );
          const head = `${title} (${found.length})`;
          return (
            <section key={level}>
              {level === 'ok' && found.length > FOLDED ? (
                <details>
                  <summary>{head}</summary>
                  {list}
                </details>
              ) : (
                <>
                  <h2>{head}</h2>
                  {list}
                </>
              )}
            </section>
          );
        })}
    </>
  );
}
