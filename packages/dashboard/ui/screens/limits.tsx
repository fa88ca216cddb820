/** Limits and pauses: how much of each limit is used, what waits for it until when, and which parts are paused. */
import { useState } from 'preact/hooks';
import type { SeenLimit, WaitingLine } from '../../src/read/limits.js';
import { Empty, Failed, Link, Table, Title, Waiting, When } from '../parts/bits';
import { count, span } from '../parts/format';
import { LimitDialog } from '../parts/limit-dialog';
import { Pauses } from '../parts/pauses';
import { doing } from '../state/act';
import { post, useAsked } from '../state/api';
import { session, snapshot } from '../state/live';
import type { LimitsAnswer } from '../state/wire';

const nameOf = ({ queue, type }: Pick<SeenLimit, 'queue' | 'type'>) =>
  type === null ? `all of ${queue}` : `${type} in ${queue}`;

const rateText = ({ rate, keyed }: SeenLimit) =>
  rate === null
    ? 'any'
    : `${count(rate.limit)} in ${span(rate.perMs)}, burst ${count(rate.burst)}${keyed ? ', each key' : ''}`;

function Used({ running, concurrency }: { running: number; concurrency: number | null }) {
  if (concurrency === null) return <>{`${count(running)} run, any number may`}</>;
  const full = running >= concurrency;
  return (
    <span class="heartbeat">
      <svg viewBox="0 0 60 10" aria-hidden="true">
        <rect class="lane" width="60" height="10" rx="2" />
        <rect
          class={full ? 'worry' : 'good'}
          width={Math.min(60, (60 * running) / concurrency)}
          height="10"
          rx="2"
        />
      </svg>
      {`${count(running)} of ${count(concurrency)}`}
    </span>
  );
}

const Line = ({ line, more }: { line: WaitingLine; more: boolean }) => (
  <>
    {`${count(line.jobs)}${more ? ' or more' : ''}`}
    {line.opensAt !== null && (
      <>
        {', next '}
        <When at={line.opensAt} />
      </>
    )}
  </>
);

function undo(limit: SeenLimit, verb: 'reset' | 'remove'): void {
  const { queue, type } = limit;
  void doing(async () => {
    await post('api/limits/act', { verb, queue, type });
    return verb === 'reset'
      ? `What the code declares holds again for ${nameOf(limit)}.`
      : `The limit of ${nameOf(limit)} is gone.`;
  });
}

function Row(props: { limit: SeenLimit; write: boolean; onChange: () => void }) {
  const { limit, write } = props;
  const { queue, type, waiting, keys, moreKeys, more } = limit;
  const jobs = `jobs?queue=${encodeURIComponent(queue)}${type === null ? '' : `&type=${encodeURIComponent(type)}`}`;
  return (
    <tr>
      <th scope="row">
        <Link to={jobs}>{nameOf(limit)}</Link>
      </th>
      <td>
        <Used running={limit.running} concurrency={limit.concurrency} />
      </td>
      <td>{rateText(limit)}</td>
      <td>
        {waiting.jobs > 0 ? <Line line={waiting} more={more} /> : <span class="dim">nothing</span>}
        {keys.map(({ key, ...line }) => (
          <div key={key} class="dim">
            {key || '(no key)'}: <Line line={line} more={more} />
          </div>
        ))}
        {moreKeys > 0 && <div class="dim">{`and ${count(moreKeys)} keys more`}</div>}
      </td>
      <td>{limit.overridden ? 'an operator' : 'code'}</td>
      {write && (
        <td class="row">
          <button
            type="button"
            onClick={props.onChange}
            aria-label={`Change the limit of ${nameOf(limit)}`}
          >
            Change…
          </button>
          {limit.overridden && limit.declared && (
            <button type="button" onClick={() => undo(limit, 'reset')}>
              Reset
            </button>
          )}
          <button
            type="button"
            onClick={() => undo(limit, 'remove')}
            aria-label={`Remove the limit of ${nameOf(limit)}`}
          >
            Remove
          </button>
        </td>
      )}
    </tr>
  );
}

const HEAD = ['Limit of', 'Running', 'Starts', 'Due and waiting', 'Set by'];

export function Limits() {
  const { data, error } = useAsked<LimitsAnswer>('api/limits', 1);
  const [changed, setChanged] = useState<SeenLimit | 'new' | null>(null);
  const write = session.value?.write === true;
  const queues = snapshot.value?.queues ?? [];
  return (
    <>
      <Title
        aside={
          write ? (
            <button type="button" onClick={() => setChanged('new')}>
              Set a limit…
            </button>
          ) : null
        }
      >
        Limits
      </Title>
      <Failed error={error} />
      {!data ? (
        error === null && <Waiting />
      ) : data.limits.length === 0 ? (
        <Empty>
          Nothing is limited. Job types declare a limit in code, and holdfast limits set sets one.
        </Empty>
      ) : (
        <Table label="Limits" head={write ? [...HEAD, 'Acts'] : HEAD}>
          {data.limits.map((limit) => (
            <Row
              key={nameOf(limit)}
              limit={limit}
              write={write}
              onChange={() => setChanged(limit)}
            />
          ))}
        </Table>
      )}
      <Pauses queues={queues} write={write} />
      {changed && (
        <LimitDialog
          limit={changed === 'new' ? null : changed}
          queues={queues.map(({ queue }) => queue)}
          onClose={() => setChanged(null)}
        />
      )}
    </>
  );
}
