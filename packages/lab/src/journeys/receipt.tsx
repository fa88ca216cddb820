/** Journey 1: the buttons of one worker, and the row. */
import { LEASE_MS } from '../engine/frame.js';
import type { ReceiptState } from '../engine/receipt.js';
import { ByHand, Do, Panel, seconds } from '../parts/bits.js';
import { Check, Empty } from '../parts/common.js';
import { Row } from '../parts/row.js';
import { Statements } from '../parts/sql.js';
import { goTo, place } from '../place.js';

export function ReceiptView({ state }: { state: ReceiptState }) {
  const { settings } = place.value;
  const { jitter: _, ...others } = settings;
  return (
    <>
      <ByHand>
        <Do what={{ do: 'enqueue' }}>Enqueue</Do>
        <Do what={{ do: 'claim' }}>Claim</Do>
        <Do what={{ do: 'succeed' }}>Handler succeeds</Do>
        <Do what={{ do: 'fail' }}>Handler fails</Do>
        <Do what={{ do: 'second' }}>A second claimer</Do>
        <Do what={{ do: 'stale' }}>Complete an old generation</Do>
        <Do what={{ do: 'renew' }}>Renew the lease</Do>
        <Do what={{ do: 'due' }}>Wait until it is due</Do>
        <Do what={{ do: 'wait', ms: 10_000 }}>Wait 10 s</Do>
        <Check
          checked={settings.jitter === true}
          onChange={(on) => goTo({ settings: on ? { ...others, jitter: true } : others })}
        >
          Jitter, as Holdfast has it by default
        </Check>
      </ByHand>
      <div class="columns lab-columns">
        <div>
          <Row state={state} leaseMs={LEASE_MS} />
          <Panel title="Retries">
            {state.retriesMs.length === 0 ? (
              <Empty small>No attempt has failed.</Empty>
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
