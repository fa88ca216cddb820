/** What the list of runs, the page of one and the page of a job share. */

import { serverNow } from '../state/live';
import type { JobAnswer, ListedRun } from '../state/wire';
import { Link, When } from './bits';
import { firstLine, span } from './format';

export const Parent = ({ of }: { of: NonNullable<JobAnswer['parent']> }) => (
  <Link to={`workflows/${of.id}`}>{`A child of step “${of.step}” of another run`}</Link>
);

export const quoted = (names: readonly string[] | null) =>
  (names ?? []).map((name) => `“${name}”`).join(' or ');

/** How long ago, by the server's clock. */
export const Age = ({ of }: { of: string }) => (
  <time dateTime={of} title={of}>
    {span(serverNow() - Date.parse(of))}
  </time>
);

type Wait = ListedRun['waits'][number];

const whatFor = ({ kind, name, signals, remaining, children, error }: Wait): string => {
  if (kind === 'wait') return `signal ${quoted(signals)}`;
  if (kind === 'sleep') return `sleep “${name}”`;
  if (kind === 'children') return `${remaining} of ${children} children of “${name}”`;
  const again = kind === 'undo' ? `undo of “${name}” again` : `“${name}” again`;
  return error ? `${again}, after: ${firstLine(error)}` : again;
};

/** The first thing that a run waits for, and since when. */
export function Waits({ of }: { of: readonly Wait[] }) {
  const [first, ...more] = of;
  if (!first) return null;
  return (
    <>
      {whatFor(first)}
      {more.length > 0 && ` and ${more.length} more`}
      <span class="dim">
        {', for '}
        <Age of={first.since} />
        {first.until && (
          <>
            {first.kind === 'wait' ? ', gives up ' : ', goes on '}
            <When at={first.until} />
          </>
        )}
      </span>
    </>
  );
}
