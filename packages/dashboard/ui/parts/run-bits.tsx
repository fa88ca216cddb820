/** What the list of runs, the page of one and the page of a job share. */

import type { JobAnswer, ListedRun } from '../state/wire';
import { Link, When } from './bits';
import { firstLine } from './format';

export const Parent = ({ of }: { of: NonNullable<JobAnswer['parent']> }) => (
  <Link to={`workflows/${of.id}`}>{`A child of step “${of.step}” of another run`}</Link>
);

export const quoted = (names: readonly string[] | null) =>
  (names ?? []).map((name) => `“${name}”`).join(' or ');

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
        {', since '}
        <When at={first.since} />
        {first.until && (
          <>
            {', at most '}
            <When at={first.until} />
          </>
        )}
      </span>
    </>
  );
}
