/** Runs are found by workflow, state, key and tag, wherever they are, and a list says what each waits for. */
import { expect, test } from 'vitest';
import {
  DeadLetter,
  job,
  type RunState,
  type RunsRequest,
  workflow,
} from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { plantWaiting } from '../support/plant-runs.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();

type Goal = 'wait' | 'sleep' | 'run' | 'die' | 'end';
const order = workflow<Goal, { approved: string }>('order', { maxAttempts: 1 });
const parcel = workflow<Goal>('parcel', { maxAttempts: 1 });
const mail = job<{ n: number }>('mail');

let goOn = () => {};
const gone = new Promise<void>((resolve) => {
  goOn = resolve;
});
const idsOf = async (request: RunsRequest) => (await db.hf.runs(request)).runs.map(({ id }) => id);
const state = async (id: string) =>
  (await db.hf.runs()).runs.find((run) => run.id === id)?.state ?? null;
const become = (id: string, wanted: RunState) =>
  until(`${id} is ${wanted}`, async () => (await state(id)) === wanted);

test('each run is listed once under its state, with what it waits for', async () => {
  start(db.hf, (worker) =>
    worker
      .workflow(order, async (flow, goal) => {
        if (goal === 'die') throw new DeadLetter('no stock');
        if (goal === 'run') await flow.step('slow', () => gone.then(() => null));
        if (goal === 'wait') await flow.wait('approval', ['approved'], { timeout: '2d' });
        if (goal === 'sleep') await flow.sleep('cool off', '1h');
        return null;
      })
      .workflow(parcel, async (flow) => flow.sleep('transit', '1d')),
  );
  const enqueue = async (goal: Goal, more = {}) =>
    (await db.hf.enqueue(order, goal, { partitionKey: `order:${goal}`, ...more })).id;
  const waiting = await enqueue('wait', { tag: 'vip' });
  const sleeping = await enqueue('sleep');
  const running = await enqueue('run', { tag: 'vip' });
  const dead = await enqueue('die', { tag: 'vip' });
  const ended = await enqueue('end', { tag: 'vip' });
  const later = await enqueue('end', { delay: '1h', tag: 'other' });
  const { id: away } = await db.hf.enqueue(parcel, 'sleep');
  await db.hf.enqueue(mail, { n: 1 });
  await become(waiting, 'waiting');
  await become(sleeping, 'waiting');
  await become(away, 'waiting');
  await become(running, 'running');
  await become(dead, 'dead_letter');
  await db.hf.wait(ended);

  expect(await idsOf({ workflow: order })).toEqual([later, dead, running, sleeping, waiting]);
  expect(await idsOf({})).toEqual([away, later, dead, running, sleeping, waiting]);
  expect(await idsOf({ workflow: 'order', state: 'waiting' })).toEqual([sleeping, waiting]);
  expect(await idsOf({ state: ['waiting', 'running'] })).toEqual([
    ...[away, running, sleeping, waiting],
  ]);
  expect(await idsOf({ state: 'running' })).toEqual([running]);
  expect(await idsOf({ state: 'scheduled' })).toEqual([later]);
  expect(await idsOf({ state: 'due' })).toEqual([]);
  expect(await idsOf({ state: 'dead_letter' })).toEqual([dead]);
  expect(await idsOf({ state: 'completed' })).toEqual([ended]);
  expect(await idsOf({ tag: 'vip' })).toEqual([dead, running, waiting]);
  expect(await idsOf({ tag: 'vip', state: 'waiting' })).toEqual([waiting]);
  expect(await idsOf({ tag: 'vip', state: ['completed', 'cancelled'] })).toEqual([ended]);
  expect(await idsOf({ tag: 'other', state: 'completed' })).toEqual([]);
  expect(await idsOf({ key: 'order:sleep' })).toEqual([sleeping]);
  expect(await idsOf({ key: 'order:sleep', state: 'waiting' })).toEqual([sleeping]);

  const { runs } = await db.hf.runs({ workflow: order, state: 'waiting' });
  const [nap, approval] = runs;
  expect(nap?.waits).toMatchObject([{ name: 'cool off', kind: 'sleep', signals: null }]);
  expect(approval).toMatchObject({ tag: 'vip', key: 'order:wait', runAt: expect.any(Date) });
  expect(approval?.waits).toEqual([
    {
      ...{ name: 'approval', kind: 'wait', signals: ['approved'] },
      ...{ remaining: null, children: null },
      ...{ attempts: null, error: null, since: expect.any(Date), until: expect.any(Date) },
    },
  ]);
  const [{ since, until: last } = { since: null, until: null }] = approval?.waits ?? [];
  expect(Number(last) - Number(since)).toBeCloseTo(2 * 24 * 3_600_000, -3);

  const groups = await db.hf.waitingRuns();
  expect(groups.map(({ workflow: of, name, kind, runs: n }) => [of, name, kind, n])).toEqual([
    ['order', 'approval', 'wait', 1],
    ['order', 'cool off', 'sleep', 1],
    ['parcel', 'transit', 'sleep', 1],
  ]);
  expect(groups[0]?.oldest).toEqual(since);
  expect(await db.hf.waitingRuns({ workflow: parcel })).toHaveLength(1);
  const { steps } = await db.hf.steps(waiting);
  expect(steps).toMatchObject([{ name: 'approval', startedAt: since, dueAt: last, endedAt: null }]);

  goOn();
  await db.hf.wait(running);
  await db.hf.cancel([waiting], { undo: true });
  await db.hf.wait(waiting);
  expect(await idsOf({ state: 'cancelled', workflow: order })).toEqual([waiting]);
});

test('pages follow one another, each run once', async () => {
  const { type, queue } = order;
  const ids: string[] = [];
  for (let n = 0; n < 7; n++)
    ids.push((await db.hf.enqueue(order, 'end', { tag: 'paged', delay: '1d' })).id);
  const seen: string[] = [];
  let after: string | null = null;
  do {
    const page = await db.hf.runs({ workflow: { type, queue }, tag: 'paged', limit: 3, after });
    seen.push(...page.runs.map(({ id }) => id));
    after = page.next;
  } while (after !== null);
  expect(seen).toEqual(ids.reverse());
});

test('a tag of a job, an unknown state and states of two places are refused', async () => {
  await expect(db.hf.enqueue(mail, { n: 1 }, { tag: 'vip' })).rejects.toThrow(
    'tag is for runs of workflows, and "mail" is a job; nothing was enqueued.',
  );
  await expect(db.hf.runs({ state: 'asleep' as RunState })).rejects.toThrow(
    'There is no state "asleep"; there are running, due, waiting,',
  );
  await expect(db.hf.runs({ state: ['waiting', 'completed'] })).rejects.toThrow(
    'One list shows the queue or the archive',
  );
});

test('in a queue that is read by key, by its key; a workflow that nobody has registered, by its steps', async () => {
  await db.hf.createQueue('lines', { ordering: 'key' });
  const ids = await plantWaiting(db, { count: 3, queue: 'lines', workflow: 'unknown', tag: 'x' });
  const queue = 'lines';
  const all = ids.toSorted().reverse();
  expect(await idsOf({ queue })).toEqual(all);
  expect(await idsOf({ queue, state: 'waiting' })).toEqual(all);
  const [first] = (await db.hf.runs({ queue, tag: 'x' })).runs;
  expect(await idsOf({ queue, key: first?.key ?? '' })).toEqual([first?.id]);
  expect(await idsOf({ queue, key: first?.key ?? '', state: 'waiting' })).toEqual([first?.id]);
  expect(await idsOf({ queue, workflow: 'other' })).toEqual([]);
});
