/** Journey 2: two workers, a mailbox, a marker, and the row between them. */
import { useState } from 'preact/hooks';
import type { CrashState } from '../engine/crash.js';
import { LEASE_MS } from '../engine/frame.js';
import { ByHand, Do, List, Panel, rowsText, seconds } from '../parts/bits.js';
import { Check, Empty, Select } from '../parts/common.js';
import { Row } from '../parts/row.js';
import { Statements } from '../parts/sql.js';
import { act } from '../player.js';

const MOMENTS = [
  ['before', 'before the mail'],
  ['between', 'between mail and marker'],
  ['after', 'after the mail'],
] as const;

function Acts({ state }: { state: CrashState }) {
  const [when, setWhen] = useState('after');
  return (
    <ByHand>
      <Do what={{ do: 'enqueue' }}>{state.enqueues === 0 ? 'Enqueue' : 'Enqueue again'}</Do>
      <Do what={{ do: 'claim', by: 'worker-a' }}>worker-a claims</Do>
      <Do what={{ do: 'claim', by: 'worker-b' }}>worker-b claims</Do>
      <Do what={{ do: 'handle' }}>Run the handler</Do>
      <Select label="Kill it" value={when} options={MOMENTS} onChange={setWhen} />
      <Do what={{ do: 'kill', when }}>Kill</Do>
      <Do what={{ do: 'expire' }}>Let the lease run out</Do>
      <Do what={{ do: 'recover' }}>Run recovery</Do>
      <Do what={{ do: 'wake' }}>Wake the stale worker</Do>
      <Check checked={state.guard} onChange={(on) => void act({ do: 'guard', on })}>
        Guard: <code>once("receipt")</code>
      </Check>
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
            {state.mails.length === 0 && <Empty small>No mail was sent.</Empty>}
            <ol class="mails">
              {state.mails.map(({ at, by, generation }, place) => (
                <li class={place > 0 ? 'bad' : undefined}>
                  {`T+${seconds(at)}: receipt for order:9182, by ${by}, generation ${generation}`}
                </li>
              ))}
            </ol>
          </Panel>
          <Panel title={`Markers: ${state.markers.length}`}>
            <List
              class="log"
              empty={
                state.guard ? 'No marker was written yet.' : 'Without the guard none is written.'
              }
              of={state.markers.map(
                ({ name, generation, created_at }) =>
                  `${name}: already sent, by generation ${generation}, ${created_at}`,
              )}
            />
          </Panel>
          <p class="dim">{`Enqueued ${state.enqueues === 1 ? 'once' : `${state.enqueues} times`}, ${rowsText(state.rows)}.`}</p>
          <Row state={state} leaseMs={LEASE_MS} />
        </div>
        <Statements />
      </div>
    </>
  );
}
