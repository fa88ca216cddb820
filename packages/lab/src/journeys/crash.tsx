/** Journey 2: two workers, a mailbox, a marker, and the row between them. */
import { useState } from 'preact/hooks';
import type { CrashState } from '../engine/crash.js';
import { ByHand, can, Do, Panel, rowsText, seconds } from '../parts/bits.js';
import { Row } from '../parts/row.js';
import { Statements } from '../parts/sql.js';
import { act } from '../player.js';

const LEASE_MS = 90_000;

function Acts({ state }: { state: CrashState }) {
  const [when, setWhen] = useState('after');
  return (
    <ByHand>
      <Do what={{ do: 'enqueue' }} when={can('enqueue')}>
        {state.enqueues === 0 ? 'Enqueue' : 'Enqueue again'}
      </Do>
      <Do what={{ do: 'claim', by: 'worker-a' }} when={can('claim')}>
        worker-a claims
      </Do>
      <Do what={{ do: 'claim', by: 'worker-b' }} when={can('claim')}>
        worker-b claims
      </Do>
      <Do what={{ do: 'handle' }} when={can('handle')}>
        Run the handler
      </Do>
      <label class="inline">
        Kill it{' '}
        <select value={when} onChange={(event) => setWhen(event.currentTarget.value)}>
          <option value="before">before the mail</option>
          <option value="between">between mail and marker</option>
          <option value="after">after the mail</option>
        </select>
      </label>
      <Do what={{ do: 'kill', when }} when={can('kill')}>
        Kill
      </Do>
      <Do what={{ do: 'expire' }} when={can('expire')}>
        Let the lease run out
      </Do>
      <Do what={{ do: 'recover' }} when={can('recover')}>
        Run recovery
      </Do>
      <Do what={{ do: 'wake' }} when={can('wake')}>
        Wake the stale worker
      </Do>
      <label class="inline">
        <input
          type="checkbox"
          checked={state.guard}
          onChange={(event) => void act({ do: 'guard', on: event.currentTarget.checked })}
        />{' '}
        Guard: <code>once("receipt")</code>
      </label>
    </ByHand>
  );
}

export function CrashView({ state }: { state: CrashState }) {
  return (
    <>
      <Acts state={state} />
      <div class="columns lab-columns">
        <div>
          <Panel title={`Mailbox: ${state.mails.length}`}>
            {state.mails.length === 0 && <p class="empty small">No mail was sent.</p>}
            <ol class="mails">
              {state.mails.map(({ at, by, generation }, place) => (
                <li class={place > 0 ? 'bad' : undefined}>
                  {`T+${seconds(at)}: receipt for order:9182, by ${by}, generation ${generation}`}
                </li>
              ))}
            </ol>
          </Panel>
          <Panel title={`Markers: ${state.markers.length}`}>
            {state.markers.length === 0 ? (
              <p class="empty small">
                {state.guard ? 'No marker was written yet.' : 'Without the guard none is written.'}
              </p>
            ) : (
              state.markers.map(({ name, generation, created_at }) => (
                <p>{`${name}: already sent, by generation ${generation}, ${created_at}`}</p>
              ))
            )}
          </Panel>
          <p class="dim">{`Enqueued ${state.enqueues === 1 ? 'once' : `${state.enqueues} times`}, ${rowsText(state.rows)}.`}</p>
          <Row state={state} leaseMs={LEASE_MS} />
        </div>
        <Statements />
      </div>
    </>
  );
}
