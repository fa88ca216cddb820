/** Undoing: the last first, once, also what may have happened, and never in silence. */
import { expect, test } from 'vitest';
import { Cancel, DeadLetter, type Flow } from '../../packages/holdfast/src/index.js';
import { type AnySignals, SOON, testRuns } from '../support/runs.js';
import { until } from '../support/until.js';
import { gate } from '../support/workers.js';

const runs = testRuns();
const { db } = runs;

type Shop = Flow<AnySignals>;
const did = new Map<string, string[]>();
const note = (flow: Shop, what: string) =>
  void did.set(flow.id, [...(did.get(flow.id) ?? []), what]);

/** A step with an undo that both say what they did. */
const act = (flow: Shop, name: string, fails: { undo?: () => boolean } = {}) =>
  flow.step(name, () => note(flow, name), {
    ...{ maxAttempts: 2, retry: SOON },
    undo: (_, { outcome }) => {
      note(flow, `un${name} ${outcome}`);
      if (fails.undo?.()) throw new Error('the bank is closed');
    },
  });

let closed = true;
const failing = runs.workflow('failing', async (flow) => {
  await act(flow, 'charge');
  await act(flow, 'reserve', { undo: () => closed });
  await act(flow, 'ship');
  throw new DeadLetter('no truck');
});

test('an undo that fails for good names what is undone and what is not, and a retry goes on there', async () => {
  const id = await runs.start(failing);
  const { status, error } = await runs.end(failing, id);
  expect(status).toBe('dead_letter');
  expect(error).toContain('The undo of "reserve" failed for good: the bank is closed.');
  expect(error).toContain('(undone: "ship"; not undone: "reserve", "charge")');
  closed = false;
  await db.hf.retry([id]);
  expect((await runs.end(failing, id)).error).toContain(
    'undone: "ship", "reserve", "charge"; not undone: none',
  );
  const first = ['charge', 'reserve', 'ship', 'unship done', 'unreserve done', 'unreserve done'];
  expect(did.get(id)).toEqual([...first, 'unreserve done', 'uncharge done']);
});

const keys: string[] = [];
let trucks = 0;
const again = runs.workflow('again', async (flow) => {
  const undo = { undo: () => note(flow, 'refund') };
  await flow.step('look', () => note(flow, 'look'));
  await flow.step(
    'charge',
    ({ key }) => {
      keys.push(key.slice(flow.id.length));
      note(flow, 'charge');
    },
    undo,
  );
  await flow.step('ship', () => {
    if (trucks === 0) throw new DeadLetter('no truck');
  });
  return 'shipped';
});

test.each(['as it is', 'ship'])(
  'after a complete undo a retry (%s) does again what was undone, under new keys',
  async (from) => {
    trucks = 0;
    keys.length = 0;
    const id = await runs.start(again);
    await runs.end(again, id);
    trucks = 1;
    await db.hf.retry([id], from === 'ship' ? { from } : {});
    expect((await runs.end(again, id)).result).toBe('shipped');
    expect(did.get(id)).toEqual(['look', 'charge', 'refund', 'charge']);
    expect(keys).toEqual(['/charge', '/charge/1']);
    // Maintenance finds the markers of the run once it has ended.
    const found = 'SELECT 1 FROM holdfast.inbox_steps WHERE run_id = $1 AND check_at IS NOT NULL';
    expect(await db.rows(found, [id])).not.toEqual([]);
  },
);

const holds = new Map<string, ReturnType<typeof gate<void>>>();
const waits = runs.workflow(
  'waits',
  async (flow, how: string) => {
    await act(flow, 'charge');
    await flow.transaction('log', async (tx) => void (await tx.query('SELECT 1')));
    if (how === 'running') {
      await flow.transaction('hold', async () => {
        note(flow, 'hold');
        await holds.get(flow.id)?.opened;
      });
      await act(flow, 'ship');
    }
    if (how === 'hiccup' && !did.get(flow.id)?.includes('hiccup')) {
      note(flow, 'hiccup');
      throw new Error('a hiccup');
    }
    await flow.wait('approval', 'approved');
  },
  { retry: { base: 300, cap: 300 } },
);

test('a run that sleeps is cancelled with undo, and so is one that is due', async () => {
  const asleep = await runs.start(waits);
  const due = await runs.start(waits, 'hiccup');
  await runs.asleep(asleep);
  await until('a hiccup', () => did.get(due)?.includes('hiccup'));
  expect((await db.hf.cancel([asleep, due], { undo: true })).sort()).toEqual([asleep, due].sort());
  for (const id of [asleep, due]) expect((await runs.end(waits, id)).status).toBe('cancelled');
  expect(did.get(asleep)).toEqual(['charge', 'uncharge done']);
  expect(did.get(due)).toEqual(['charge', 'hiccup', 'uncharge done']);
});

test('a run that is in a transaction ends it, begins nothing more and undoes', async () => {
  const hold = gate();
  const { id } = await db.hf.enqueue(waits, 'running', { delay: 30 });
  holds.set(id, hold);
  await until('the transaction runs', () => did.get(id)?.includes('hold'));
  await db.hf.cancel([id], { undo: true });
  hold.open();
  expect((await runs.end(waits, id)).status).toBe('cancelled');
  expect(did.get(id)).toEqual(['charge', 'hold', 'uncharge done']);
});

let knows = true;
const forgetful = runs.workflow('forgetful', async (flow) => {
  if (knows) await act(flow, 'charge');
  await flow.wait('approval', 'approved');
});

test('code that does not know a step any more says that it is not undone', async () => {
  knows = true;
  const id = await runs.start(forgetful);
  await runs.asleep(id);
  knows = false;
  await db.hf.cancel([id], { undo: true, reason: 'withdrawn' });
  const { status, error } = await runs.end(forgetful, id);
  expect(status).toBe('dead_letter');
  expect(error).toContain('withdrawn (undone: none; not undone: "charge")');
  // Somebody decides that it goes on from there after all.
  knows = true;
  await db.hf.retry([id], { from: 'approval' });
  await runs.asleep(id);
  await db.hf.signal(forgetful, id, 'approved');
  expect((await runs.end(forgetful, id)).status).toBe('completed');
  expect(did.get(id)).toEqual(['charge']);
});

const begun = gate();
const unknown = runs.workflow('unknown', async (flow) => {
  await flow.step(
    'charge',
    async () => {
      note(flow, 'charge');
      begun.open();
      await new Promise(() => {});
    },
    { undo: (value, { outcome }) => note(flow, `refund ${value} ${outcome}`) },
  );
});

test('a step that was cut off is undone too, and its undo is told that nobody knows', async () => {
  const id = await runs.start(unknown);
  await begun.opened;
  // Its worker is taken for dead.
  await db.hf.cancel([id], { undo: true });
  await db.rows(
    `UPDATE holdfast.inbox SET lease_generation = lease_generation + 1, status = 'pending', claimed_by = NULL,
     claimed_at = NULL, lease_expires_at = NULL, available_at = now() WHERE id = $1`,
    [id],
  );
  expect((await runs.end(unknown, id)).status).toBe('cancelled');
  expect(did.get(id)).toEqual(['charge', 'refund undefined unknown']);
});

let refunds = 0;
const backsOff = runs.workflow('backs_off', async (flow) => {
  // Waits for its next try all the while, and is overdue.
  const other = flow.step('other', () => Promise.reject(new Error('no')), {
    ...{ maxAttempts: 9, retry: () => 260 },
  });
  other.catch(() => undefined);
  await flow.step('charge', () => 1, {
    ...{ maxAttempts: 3, retry: () => 600 },
    undo: () => {
      refunds++;
      if (refunds === 1) throw new Error('the bank is closed');
      if (refunds === 2) throw new Cancel('never');
    },
  });
  await flow.wait('approval', 'approved');
});

test('an undo is tried at its own pace, and giving up is not silent', async () => {
  const id = await runs.start(backsOff);
  await runs.asleep(id, 'approval');
  await db.hf.cancel([id], { undo: true });
  const started = Date.now();
  const { status, error } = await runs.end(backsOff, id);
  expect(Date.now() - started).toBeGreaterThan(300);
  expect(refunds).toBe(2);
  expect({ status, error }).toEqual({
    status: 'dead_letter',
    error: expect.stringContaining('not undone: "charge"'),
  });
});
