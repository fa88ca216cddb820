/** Workflows in the test kit, on PGlite: time that skips, signals, fakes, waits at which a test stops, and undo. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { KITS, kitOn } from '../../../../test/support/kits.js';
import { DeadLetter, job, workflow } from '../../../holdfast/src/index.js';
import type { Flow } from '../../../holdfast/src/workflow/flow.js';
import { clearJobs, drain, testWorkflow, useHoldfast } from '../index.js';

const DAY = 86_400_000;

interface Order {
  readonly id: number;
  readonly parcels: readonly number[];
}
interface Signals {
  readonly approved: { readonly by: string };
  readonly refused: string;
  readonly [name: string]: unknown;
}
const shipParcel = job<{ parcel: number }, { shipped: number }>('ship_parcel');
const checkout = workflow<Order, Signals, { paid: string; by: string | null; shipped: number }>(
  'checkout',
);
const order = { id: 9182, parcels: [1, 2] };

const bank = { charges: [] as string[], refunds: [] as unknown[] };

async function body(flow: Flow<Signals, Order>, { parcels }: Order) {
  const paid = await flow.step(
    'charge',
    ({ key }) => {
      bank.charges.push(key);
      return 'ch_1';
    },
    { undo: (charge) => void bank.refunds.push(charge) },
  );
  const yes = await flow.wait('approval', 'approved', { timeout: '2d' });
  await flow.sleep('cool off', '1h');
  const shipped = await flow.children(
    'ship',
    shipParcel,
    parcels.map((parcel) => ({ parcel })),
  );
  const all = shipped.every(({ status }) => status === 'completed');
  if (!all) throw new DeadLetter('a parcel was lost');
  return { paid, by: yes?.by ?? null, shipped: shipped.length };
}

const [[, onPglite]] = KITS as [(typeof KITS)[number]];

describe('testWorkflow', () => {
  const kit = kitOn(onPglite);
  beforeEach(async () => {
    useHoldfast(kit.hf);
    bank.charges = [];
    bank.refunds = [];
    await clearJobs(kit.hf);
  });
  afterEach(() => useHoldfast(null));
  const children = { ship: ({ parcel }: { parcel: number }) => ({ shipped: parcel }) };

  test('skips over days, and tells how each step ended', async () => {
    const run = await testWorkflow(checkout, body, order, { children });
    expect(run).toMatchObject({
      ...{ outcome: 'completed', result: { paid: 'ch_1', by: null, shipped: 2 }, error: null },
      ...{ movedMs: 2 * DAY + 3_600_000, undone: [], enqueued: [] },
    });
    expect(run.steps.map(({ name, kind, state }) => [name, kind, state])).toEqual([
      ['charge', 'step', 'done'],
      ['approval', 'wait', 'done'],
      ['cool off', 'sleep', 'done'],
      ['ship', 'children', 'done'],
    ]);
    expect(run.steps[0]).toMatchObject({ value: 'ch_1', faked: false });
    expect(run.steps[1]?.ms).toBeGreaterThanOrEqual(2 * DAY);
  });
});
