/** Limits and pauses: how much of each limit is used, what waits for it until when, and which parts are paused. */
import { Button, Table } from '@holdfast/lab';
import { useState } from 'preact/hooks';
import type { SeenLimit, WaitingLine } from '../../src/read/limits.js';
import { Link, Shown, Title, When } from '../parts/bits';
import { count, span } from '../parts/format';
import { LimitDialog } from '../parts/limit-dialog';
import { Pauses } from '../parts/pauses';
import { send } from '../state/act';
import { useAsked } from '../state/api';
import { snapshot, write } from '../state/live';
import { jobsAt } from '../state/route';
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
    <span class="heartbeat inline">
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
  const said =
    verb === 'reset'
      ? `What the code declares holds again for ${nameOf(limit)}.`
      : `The limit of ${nameOf(limit)} is gone.`;
  void send('api/limits/act', { verb, queue: limit.queue, type: limit.type }, said);
}

function Row({ limit, onChange }: { limit: SeenLimit; onChange: () => void }) {
  const { queue, type, waiting, keys, moreKeys, more } = limit;
  return (
    <tr>
      <th scope="row">
        <Link to={jobsAt({ queue, ...(type !== null && { type }) })}>{nameOf(limit)}</Link>
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
      {write.value && (
        <td class="row">
          <Button onClick={onChange} aria-label={`Change the limit of ${nameOf(limit)}`}>
            Change…
          </Button>
          {limit.overridden && limit.declared && (
            <Button onClick={() => undo(limit, 'reset')}>Reset</Button>
          )}
          <Button
            onClick={() => undo(limit, 'remove')}
            aria-label={`Remove the limit of ${nameOf(limit)}`}
          >
            Remove
          </Button>
        </td>
      )}
    </tr>
  );
}

const HEAD = ['Limit of', 'Running', 'Starts', 'Due and waiting', 'Set by'];
const NONE =
  'Nothing is limited. Job types declare a limit in code, and holdfast limits set sets one.';

export function Limits() {
  const asked = useAsked<LimitsAnswer>('api/limits', 1);
  const [changed, setChanged] = useState<SeenLimit | 'new' | null>(null);
  const queues = snapshot.value?.queues ?? [];
  return (
    <>
      <Title aside={write.value && <Button onClick={() => setChanged('new')}>Set a limit…</Button>}>
        Limits
      </Title>
      <Shown of={asked}>
        {({ limits }) => (
          <Table label="Limits" head={write.value ? [...HEAD, 'Acts'] : HEAD} empty={NONE}>
            {limits.map((limit) => (
              <Row key={nameOf(limit)} limit={limit} onChange={() => setChanged(limit)} />
            ))}
          </Table>
        )}
      </Shown>
      <Pauses queues={queues} />
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
