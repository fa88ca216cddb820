/** Workflows in the test kit: time that skips, signals, fakes, faults, and bodies that are tried on histories. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { KITS, kitOn } from '../../../../test/support/kits.js';
import { DeadLetter, type Flow, job, workflow } from '../../../holdfast/src/index.js';
import {
  clearJobs,
  drain,
  replayHistory,
  survivesFaults,
  testWorkflow,
  useHoldfast,
} from '../index.js';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

interface Order {
  readonly id: number;
  readonly parcels: readonly number[];
}
interface Signals {
  readonly approved: { readonly by: string };
  readonly [name: string]: unknown;
}
interface Receipt {
  readonly paid: string | undefined;
  readonly by: string | null;
  readonly shipped: number;
}
type CheckoutFlow = Flow<Signals, Order>;

const shipParcel = job<{ parcel: number }, { shipped: number }>('ship_parcel');
const checkout = workflow<Order, Signals, Receipt>('checkout');
const order = { id: 9182, parcels: [1, 2] };
const approved = { name: 'approved', value: { by: 'kim' } } as const;

/** A bank that knows idempotency keys, if it is given any. */
class Bank {
  readonly charges: (string | undefined)[] = [];
  readonly refunds: unknown[] = [];

  charge(key?: string): string {
    if (key === undefined || !this.charges.includes(key)) this.charges.push(key);
    return `ch_${this.charges.length}`;
  }

  refund(charge: unknown, key?: string): void {
    if (key === undefined || !this.refunds.includes(key)) this.refunds.push(key ?? charge);
  }
}
let bank = new Bank();

async function body(flow: CheckoutFlow, { parcels }: Order): Promise<Receipt> {
  const paid = await flow.step('charge', ({ key }) => bank.charge(key), {
    undo: (charge, { key }) => bank.refund(charge, key),
  });
  const yes = await flow.wait('approval', 'approved', { timeout: '2d' });
  await flow.sleep('cool off', '1h');
  const inputs = parcels.map((parcel) => ({ parcel }));
  const shipped = await flow.children('ship', shipParcel, inputs);
  if (shipped.some(({ status }) => status !== 'completed'))
    throw new DeadLetter('a parcel is lost');
  return { paid, by: yes?.by ?? null, shipped: shipped.length };
}

// On PGlite the examples of docs/testing.md run: there the faults take a multiple of the time.
const [, onServer] = KITS.find(([name]) => name === 'Postgres') as (typeof KITS)[number];
const kit = kitOn(onServer, 'CREATE TABLE stock (item text, count int)');
const children = { ship: ({ parcel }: { parcel: number }) => ({ shipped: parcel }) };
beforeEach(async () => {
  useHoldfast(kit.hf);
  bank = new Bank();
  await clearJobs(kit.hf);
  await kit.pool.query('DELETE FROM stock');
});
afterEach(() => useHoldfast(null));

describe('testWorkflow', () => {
  test('skips over days, and tells how each step ended', async () => {
    const run = await testWorkflow(checkout, body, order, { children });
    expect(run).toMatchObject({
      ...{ outcome: 'completed', result: { paid: 'ch_1', by: null, shipped: 2 }, error: null },
      ...{ movedMs: 2 * DAY + HOUR, undone: [], enqueued: [], turns: 4 },
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

  test('sends the signals of the script in their time, and those before the first turn are kept', async () => {
    const late = await testWorkflow(checkout, body, order, {
      children,
      signals: [{ ...approved, after: '1d' }],
    });
    expect(late).toMatchObject({ result: { by: 'kim' }, movedMs: DAY + HOUR });
    const early = await testWorkflow(checkout, body, order, { children, signals: [approved] });
    expect(early).toMatchObject({ result: { by: 'kim' }, movedMs: HOUR });
  });

  test('stops at a wait, to look and to act, and goes on', async () => {
    const run = testWorkflow(checkout, body, order, { children });
    const wait = await run.untilWaiting('approval');
    expect(wait).toMatchObject({ kind: 'wait', state: 'waiting', signals: ['approved'] });
    expect(await kit.hf.job(run.id)).toMatchObject({ status: 'pending' });
    expect(bank.charges).toHaveLength(1);
    await run.advance('36h');
    expect((await run.steps()).map(({ name, state }) => [name, state])).toEqual([
      ['charge', 'done'],
      ['approval', 'waiting'],
    ]);
    expect(await run.signal('approved', { by: 'kim' }, { key: 'a' })).toBe(true);
    expect(await run.signal('approved', { by: 'kim' }, { key: 'a' })).toBe(false);
    const { result, movedMs } = await run;
    expect({ result, movedMs }).toMatchObject({ result: { by: 'kim' }, movedMs: 37 * HOUR });
    await expect(run.untilWaiting('approval')).rejects.toThrow(
      /ended as "completed" before it waited in "approval"/,
    );
  });

  test('a signal in a transaction counts when it commits', async () => {
    const run = testWorkflow(checkout, body, order, { children });
    await run.untilWaiting('approval');
    const client = await kit.pool.connect();
    await client.query('BEGIN');
    await kit.hf.signal(checkout, run.id, 'approved', { by: 'kim' }, { tx: client });
    await client.query('COMMIT');
    client.release();
    expect(await run).toMatchObject({ result: { by: 'kim' }, movedMs: HOUR });
  });

  test('fakes steps by a value, an error or a function; retries take no real time', async () => {
    const tries: number[] = [];
    const charge = ({ attempt }: { attempt: number }) => {
      tries.push(attempt);
      if (attempt < 4) throw new Error('the bank is busy');
      return 'ch_fake';
    };
    const faked = await testWorkflow(checkout, body, order, { children, steps: { charge } });
    expect(faked.result).toMatchObject({ paid: 'ch_fake' });
    expect(faked.steps[0]).toMatchObject({ faked: true, attempts: 4 });
    expect(tries).toEqual([1, 2, 3, 4]);

    const value = await testWorkflow(checkout, body, order, {
      children,
      steps: { charge: 'ch_9' },
    });
    expect(value.result).toMatchObject({ paid: 'ch_9' });

    const steps = { charge: new DeadLetter('no card') };
    const failed = await testWorkflow(checkout, body, order, { children, steps });
    expect(failed).toMatchObject({ outcome: 'dead_letter', result: null, undone: ['charge'] });
    expect(failed.error).toMatch(/no card/);
    // The undo of a faked step does nothing.
    expect(bank).toMatchObject({ charges: [], refunds: [] });
  });

  test('a fake whose name is mistyped rejects the run; one that was not asked for is listed', async () => {
    const script = { children, signals: [approved] };
    const mistyped = testWorkflow(checkout, body, order, { ...script, steps: { chargee: 'ch_9' } });
    await expect(mistyped).rejects.toThrow(
      /steps has a fake "chargee", and the run ended without asking for it.* Did you mean "charge"\?/,
    );
    const fakes = { steps: { charge: 'ch_9', mail: null }, undo: { charge: () => undefined } };
    const { unusedFakes } = await testWorkflow(checkout, body, order, { ...script, ...fakes });
    expect(unusedFakes).toEqual(['steps.mail']);
    const items = async (flow: CheckoutFlow) => void (await flow.step('item 1', () => 'A5'));
    const numbered = testWorkflow(checkout, items as never, order, { steps: { 'item 2': 'B6' } });
    expect(await numbered).toMatchObject({ outcome: 'completed', unusedFakes: ['steps.item 2'] });
  });

  test('tells what was undone, in order, and fakes undos', async () => {
    const seen: unknown[] = [];
    const twoSteps = async (flow: CheckoutFlow) => {
      await flow.transaction(
        'reserve',
        async (tx) => void (await tx.query(`INSERT INTO stock VALUES ('a', 1)`)),
        {
          undo: async (tx) => void (await tx.query(`INSERT INTO stock VALUES ('a', -1)`)),
        },
      );
      await flow.step('charge', () => 'ch_1', { undo: () => bank.refund('real') });
      throw new DeadLetter('out of trucks');
    };
    const undo = { charge: (value: unknown) => seen.push(value) };
    const run = await testWorkflow(checkout, twoSteps as never, order, { undo });
    expect(run).toMatchObject({ outcome: 'dead_letter', undone: ['charge', 'reserve'] });
    expect(run.error).toMatch(/out of trucks.*undone: "charge", "reserve"; not undone: none/);
    expect(seen).toEqual(['ch_1']);
    expect(bank.refunds).toEqual([]);
    const { rows } = await kit.pool.query('SELECT count FROM stock');
    expect(rows).toEqual([{ count: 1 }, { count: -1 }]);
  });

  test('a run is cancelled with undo', async () => {
    const run = testWorkflow(checkout, body, order);
    await run.untilWaiting('approval');
    await run.cancel({ undo: true, reason: 'changed her mind' });
    expect(await run).toMatchObject({ outcome: 'cancelled', undone: ['charge'], movedMs: 0 });
    expect(bank.refunds).toHaveLength(1);
  });

  test('children are faked, or handled by a worker', async () => {
    const lost = (_: unknown, n: number) => {
      if (n === 1) throw new Error('no such street');
      return { shipped: 1 };
    };
    const failed = await testWorkflow(checkout, body, order, { children: { ship: lost } });
    expect(failed).toMatchObject({ outcome: 'dead_letter', undone: ['charge'] });
    expect(failed.error).toMatch(/a parcel is lost/);

    const handled: number[] = [];
    const worker = kit.hf.worker().handle(shipParcel, ({ payload }) => {
      handled.push(payload.parcel);
      return { shipped: payload.parcel };
    });
    const run = await testWorkflow(checkout, body, order, { worker });
    expect(run.result).toMatchObject({ shipped: 2 });
    expect(handled).toEqual([1, 2]);
    await expect(testWorkflow(checkout, body, order)).rejects.toThrow(
      /The children "ship" are jobs of the type "ship_parcel", and nobody handles them/,
    );
  });

  test('a run keeps the version that it began with', async () => {
    const two = workflow<{ id: number }, Signals, string>('two_versions', { version: 2 });
    const bodies = { 1: async () => 'old', 2: async () => 'new' };
    expect((await testWorkflow(two, bodies, { id: 1 })).result).toBe('new');
    expect((await testWorkflow(two, bodies, { id: 1 }, { version: 1 })).result).toBe('old');
  });

  test('a run that can never end is an error that says what it waits for', async () => {
    const waits = async (flow: CheckoutFlow) => void (await flow.wait('approval', 'approved'));
    const run = testWorkflow(checkout, waits as never, order);
    await expect(run).rejects.toThrow(
      /it waits for the signal "approved" in "approval", and nobody/,
    );
    const forever = async (flow: CheckoutFlow) => flow.restart(order);
    const endless = testWorkflow(checkout, forever, order, { limit: 5 });
    await expect(endless).rejects.toThrow(/has not ended after 5 turns/);
  });
});

test('drain runs workflows: turns, waits and children', async () => {
  const worker = kit.hf
    .worker()
    .handle(shipParcel, ({ payload }) => ({ shipped: payload.parcel }))
    .workflow(checkout, body);
  const { id } = await kit.hf.enqueue(checkout, order);
  const waiting = await kit.hf.enqueue(checkout, { ...order, id: 2 }, { delay: '1h' });
  await kit.hf.cancel([waiting.id]);
  expect(await drain(kit.hf, { worker })).toMatchObject({ completed: 3, waiting: 3, left: 0 });
  expect(await kit.hf.job(id)).toMatchObject({ status: 'completed' });
});

describe('survivesFaults', () => {
  const short = workflow<{ id: number }, Signals>('short');
  type Short = Flow<Signals, { id: number }>;

  test('a workflow whose steps pass their keys, with transactions, waits and undo, survives', async () => {
    const careful = async (flow: Short, { id }: { id: number }) => {
      await flow.transaction(
        'reserve',
        async (tx) => void (await tx.query('INSERT INTO stock VALUES ($1, 1)', [id])),
        {
          undo: async (tx) => void (await tx.query('INSERT INTO stock VALUES ($1, -1)', [id])),
        },
      );
      await flow.step('charge', ({ key }) => bank.charge(key), {
        undo: (charge, { key }) => bank.refund(charge, key),
      });
      const yes = await flow.wait('approval', 'approved', { timeout: '2d' });
      if (!yes) throw new DeadLetter('nobody approved');
    };
    const rows = async (where: string) =>
      Number((await kit.pool.query(`SELECT count(*)::int AS n FROM stock ${where}`)).rows[0].n);
    const effect = async () => ({
      ...{ charged: bank.charges.length, refunded: bank.refunds.length },
      ...{ reserved: await rows('WHERE count = 1'), released: await rows('WHERE count = -1') },
    });
    const { tried, missed } = await survivesFaults(short, careful, { id: 1 }, { effect });
    expect(missed).toEqual([]);
    expect(tried).toContain(
      'the worker crashes after the step "charge" had run and before that was recorded',
    );
    expect(tried).toContain(
      'the worker crashes before the COMMIT of the transaction "reserve" was sent',
    );
    expect(tried).toContain('the worker crashes right after the suspension in "approval"');
    expect(tried).toContain(
      'the worker crashes after the undo of "charge" had run and before that was recorded',
    );
  });

  test('a step that ignores its key is named, with the statement', async () => {
    const careless = async (flow: Short) => {
      await flow.step('label', () => 'A5');
      await flow.step('charge', () => bank.charge());
    };
    const failed = survivesFaults(
      short,
      careless,
      { id: 1 },
      { effect: () => bank.charges.length },
    );
    await expect(failed).rejects.toThrow(
      /The workflow "short" does not survive a fault: the effect of the step "charge" happened 2 × instead of 1 ×/,
    );
    await expect(failed).rejects.toThrow(
      /Fault: the worker crashes after the step "charge" had run and before that was recorded/,
    );
    await expect(failed).rejects.toThrow(/pass the `key`/);
  });

  test('an effect outside of any step is found, and an undo that is not repeatable', async () => {
    const outside = async (flow: Short) => {
      await flow.step('label', () => 'A5');
      bank.charge();
      await flow.step('mail', () => undefined);
    };
    const effect = () => bank.charges.length;
    await expect(survivesFaults(short, outside, { id: 1 }, { effect })).rejects.toThrow(
      /the effect of the body, outside of any step, happened 2 × instead of 1 ×/,
    );
    const undoes = async (flow: Short) => {
      await flow.step('charge', ({ key }) => bank.charge(key), { undo: (one) => bank.refund(one) });
      throw new DeadLetter('no');
    };
    const refunds = () => bank.refunds.length;
    await expect(survivesFaults(short, undoes, { id: 1 }, { effect: refunds })).rejects.toThrow(
      /the effect of the undo of "charge" happened 2 × instead of 1 ×/,
    );
  });
});

describe('replayHistory', () => {
  const recorded = async () => {
    const run = testWorkflow(checkout, body, order, { children });
    await run.untilWaiting('approval');
    const waiting = await kit.hf.history(run.id);
    await run;
    const ended = await kit.hf.history(run.id);
    // As from a file.
    return JSON.parse(JSON.stringify({ waiting, ended })) as typeof all;
  };
  let all: {
    waiting: Awaited<ReturnType<typeof kit.hf.history>>;
    ended: Awaited<ReturnType<typeof kit.hf.history>>;
  };
  const replay = (of: 'waiting' | 'ended', with_: unknown) =>
    replayHistory(checkout, with_ as typeof body, all[of]);

  test('the same body comes to the same place, without an effect', async () => {
    all = await recorded();
    const charges = bank.charges.length;
    expect(await replay('waiting', body)).toMatchObject({
      ...{ outcome: 'waits', ok: true, waits: ['approval'], next: [] },
    });
    expect(await replay('ended', body)).toMatchObject({
      ...{ outcome: 'ended', ok: true, result: { paid: 'ch_1', by: null, shipped: 2 } },
    });
    expect(bank.charges).toHaveLength(charges);
  });

  test('a first step that was removed is told within the time limit of a test', {
    timeout: 5_000,
  }, async () => {
    all = await recorded();
    // It waits for something that is recorded behind the step that it forgot.
    const forgetful = (flow: CheckoutFlow) => flow.wait('approval', 'approved');
    const { outcome, error } = await replay('waiting', forgetful);
    expect(outcome).toBe('changed');
    expect(error?.message).toMatch(/is recorded, and the code asks for "approval" instead/);
  });

  test('a body that goes on to something new is ok, and says what comes next', async () => {
    all = await recorded();
    const more = async (flow: CheckoutFlow, input: Order) => {
      const receipt = await body(flow, input);
      await Promise.all([
        flow.step('mail', () => bank.charge()),
        flow.transaction(
          'count',
          async (tx) => void (await tx.query('INSERT INTO stock VALUES (1, 1)')),
        ),
      ]);
      return receipt;
    };
    expect(await replay('ended', more)).toMatchObject({
      ...{ outcome: 'went_on', ok: true, next: ['mail', 'count'], error: null },
    });
    expect(bank.charges).toHaveLength(1);
  });

  test('a body that does not fit is told WORKFLOW_CHANGED with both names', async () => {
    all = await recorded();
    const renamed = async (flow: CheckoutFlow) => {
      await flow.step('pay', ({ key }) => bank.charge(key));
    };
    const one = await replay('waiting', renamed);
    expect(one).toMatchObject({
      outcome: 'changed',
      ok: false,
      error: { code: 'WORKFLOW_CHANGED' },
    });
    expect(one.error?.message).toMatch(
      /The step "charge" is recorded, and the code asks for "pay"/,
    );
    const other = await replay('waiting', async (flow: CheckoutFlow) => flow.sleep('charge', '1h'));
    expect(other.error?.message).toMatch(
      /"charge" is recorded as a step, and the code asks for a sleep/,
    );
    const stopped = await replay('ended', async () => null);
    expect(stopped).toMatchObject({ outcome: 'changed' });
    const threw = await replay('ended', async () => {
      throw new TypeError('paid is not an object');
    });
    expect(threw).toMatchObject({
      outcome: 'threw',
      ok: false,
      error: { message: 'paid is not an object' },
    });
    expect(bank.charges).toHaveLength(1);
  });

  test('a run that has undone what it did replays to its end, and a forgotten step is named', async () => {
    const undone = testWorkflow(checkout, body, order);
    await undone.untilWaiting('approval');
    await undone.cancel({ undo: true });
    await undone;
    const history = await kit.hf.history(undone.id);
    expect(history.status).toBe('cancelled');
    expect(await replayHistory(checkout, body, history)).toMatchObject({
      outcome: 'ended',
      ok: true,
    });
    const other = async (flow: CheckoutFlow) => void (await flow.wait('approval', 'approved'));
    const { error } = await replayHistory(checkout, other as never, history);
    expect(error?.message).toMatch(/The step "charge" is recorded/);
    expect(bank.refunds).toHaveLength(1);
  });

  test('what is no history is refused', async () => {
    await expect(replayHistory(checkout, body, {} as never)).rejects.toThrow(
      /no history of hf.history/,
    );
    await expect(kit.hf.history('0199c1b2-7f7a-7f7a-8f7a-000000000000')).rejects.toThrow(
      /JOB_UNKNOWN|not known/,
    );
  });
});
