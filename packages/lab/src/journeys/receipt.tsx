/** Journey 1: the buttons of one worker, and the row. */
import type { ReceiptState } from '../engine/receipt.js';
import { ByHand, can, Do, Panel, seconds } from '../parts/bits.js';
import { Row } from '../parts/row.js';
import { Statements } from '../parts/sql.js';
import { goTo, place } from '../place.js';

const LEASE_MS = 90_000;

export function ReceiptView({ state }: { state: ReceiptState }) {
  return (
    <>
      <ByHand>
        <Do what={{ do: 'enqueue' }} when={can('enqueue')}>
          Enqueue
        </Do>
        <Do what={{ do: 'claim' }} when={can('claim')}>
          Claim
        </Do>
        <Do what={{ do: 'succeed' }} when={can('succeed')}>
          Handler succeeds
        </Do>
        <Do what={{ do: 'fail' }} when={can('fail')}>
          Handler fails
        </Do>
        <Do what={{ do: 'second' }} when={can('second')}>
          A second claimer
        </Do>
        <Do what={{ do: 'stale' }} when={can('stale')}>
          Complete an old generation
        </Do>
        <Do what={{ do: 'renew' }} when={can('renew')}>
          Renew the lease
        </Do>
        <Do what={{ do: 'due' }} when={can('due')}>
          Wait until it is due
        </Do>
        <Do what={{ do: 'wait', ms: 10_000 }} when={can('wait')}>
          Wait 10 s
        </Do>
        <label class="inline">
          <input
            type="checkbox"
            checked={place.value.settings.jitter === true}
            onChange={(event) => {
              const { jitter: _, ...others } = place.value.settings;
              goTo({
                settings: event.currentTarget.checked ? { ...others, jitter: true } : others,
              });
            }}
          />{' '}
          Jitter, as Holdfast has it by default
        </label>
      </ByHand>
      <div class="columns lab-columns">
        <div>
          <Row state={state} leaseMs={LEASE_MS} />
          <Panel title="Retries">
            {state.retriesMs.length === 0 ? (
              <p class="empty small">No attempt has failed.</p>
            ) : (
              <p class="figure">{state.retriesMs.map(seconds).join(', ')}</p>
            )}
          </Panel>
        </div>
        <Statements />
      </div>
    </>
  );
}
