/** What the dashboard says of runs of workflows, and what people do with them there. */
import { beforeEach, expect, test } from 'vitest';
import { DeadLetter, job, workflow } from '../../packages/holdfast/src/index.js';
import { asking } from '../support/dashboard.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const CARD = '4242-4242';
const EVIL = '<img src=x onerror=alert(1)>';

interface Order {
  readonly goal: 'ship' | 'die' | 'split';
}
type Answer = { card: string };
const checkout = workflow<Order, { approved: Answer; refused: Answer }>('checkout', {
  maxAttempts: 1,
});
const parcel = job<{ n: number }>('parcel', { maxAttempts: 1 });

let stock = 0;
const undone: string[] = [];

let opened: ReturnType<typeof asking> | null = null;
const dashboard = () => {
  opened ??= asking(db.hf, { loopback: true, write: true, actor: 'ada' });
  return opened;
};
const state = async (id: string) => (await dashboard().get(`/api/runs/${id}`)).body.state;
const become = (id: string, wanted: string) =>
  until(`it is ${wanted}`, async () => (await state(id)) === wanted);
const begin = async (goal: Order['goal'], more = {}) =>
  (await db.hf.enqueue(checkout, { goal }, more)).id;
const waiting = async (more = {}) => {
  const id = await begin('ship', more);
  await become(id, 'waiting');
  return id;
};

beforeEach(() => {
  start(db.hf, (worker) =>
    worker
      .handle(parcel, ({ payload: { n } }) => {
        if (n === 1) throw new DeadLetter('lost');
      })
      .workflow(checkout, async (flow, { goal }) => {
        await flow.step('charge', () => ({ card: CARD }), {
          undo: () => void undone.push('charge'),
        });
        if (goal === 'split') {
          await flow.children('parcels', parcel, [{ n: 0 }, { n: 1 }, { n: 2 }]);
          return null;
        }
        if (goal === 'ship') await flow.wait(EVIL, ['approved', 'refused'], { timeout: '2d' });
        await flow.step('reserve', () => {
          if (stock === 0) throw new DeadLetter(`no stock for ${CARD}`);
          return stock;
        });
        return { card: CARD };
      }),
  );
});

test('runs are listed by workflow, state, key and tag, a page at a time, with what waits for what', async () => {
  const planted: string[] = [];
  for (let n = 0; n < 3; n++)
    planted.push(await waiting({ partitionKey: `order:${n}`, tag: 'vip' }));
  await db.hf.enqueue(parcel, { n: 0 }, { delay: '1h' });
  const { get } = dashboard();
  const ids = async (query: string) =>
    (await get(`/api/runs?${query}`)).body.runs.map(({ id }: { id: string }) => id);
  const newest = planted.toReversed();
  expect(await ids('workflow=checkout&state=waiting')).toEqual(newest);
  expect(await ids('tag=vip')).toEqual(newest);
  expect(await ids('tag=other')).toEqual([]);
  expect(await ids('key=order:1')).toEqual([planted[1]]);
  expect(await ids('state=running,due')).toEqual([]);
  expect(await ids('')).toEqual(newest);
  const first = (await get('/api/runs?tag=vip&limit=2')).body;
  expect(first.runs).toMatchObject([
    { id: newest[0], state: 'waiting', waits: [{ name: EVIL, signals: ['approved', 'refused'] }] },
    { id: newest[1] },
  ]);
  expect(await ids(`tag=vip&limit=2&after=${first.next}`)).toEqual([newest[2]]);
  const { waiting: groups, workflows } = (await get('/api/runs/waiting')).body;
  expect(groups).toMatchObject([{ workflow: 'checkout', name: EVIL, kind: 'wait', runs: 3 }]);
  expect(workflows).toEqual(['checkout']);
  for (const wrong of ['state=asleep', 'state=waiting,completed', 'limit=x'])
    expect((await get(`/api/runs?${wrong}`)).status, wrong).toBe(400);
  await db.hf.cancel(planted);
  expect(await ids('state=cancelled&tag=vip')).toHaveLength(3);
});

test('a run is shown with its steps, what undo would do and its signals; values come when asked for', async () => {
  stock = 1;
  const id = await waiting({ tag: 'vip' });
  const { get, post } = dashboard();
  const path = `/api/runs/${id}`;
  const { body, text } = await get(path);
  expect(body).toMatchObject({
    ...{ state: 'waiting', tag: 'vip', parent: null, moreSteps: 0, signals: [] },
    steps: [
      { name: 'charge', kind: 'step', state: 'done', hasUndo: true },
      { name: EVIL, kind: 'wait', state: 'waiting', signals: ['approved', 'refused'] },
    ],
    undo: { why: null, left: ['charge'] },
  });
  // An explanation is kept for a moment.
  await until('it says what it waits for', async () =>
    (await get(path)).body.explanation.text.includes('for the signal "approved"'),
  );
  expect(text).not.toContain(CARD);
  expect((await get(`${path}/value?step=charge`)).body).toEqual({ value: { card: CARD } });
  expect((await get(`${path}/value?step=nothing`)).status).toBe(404);
  expect((await get(`${path}/value`)).status).toBe(400);

  const value = { card: CARD };
  const sent = { queue: 'inbox', name: 'approved', value, key: 'a', reason: 'a call' };
  expect((await post(`${path}/signal`, sent)).body).toEqual({ sent: true });
  expect((await post(`${path}/signal`, sent)).body.sent ?? false).toBe(false);
  await become(id, 'completed');
  const ended = await get(path);
  expect(ended.body.signals).toMatchObject([{ name: 'approved', key: 'a', takenBy: EVIL }]);
  const { sentAt } = ended.body.signals[0];
  const which = `signal=approved&at=${encodeURIComponent(sentAt)}`;
  expect((await get(`${path}/value?${which}`)).body).toEqual({ value });
  const [act] = (await db.hf.audit()).acts.filter((one) => one.act === 'signal');
  expect(act).toMatchObject({ actor: 'ada', reason: 'a call', jobs: 1 });
  expect((await post(`${path}/signal`, { ...sent, key: 'b' })).status).toBe(409);
});

test('redaction is asked for every value and every error of a run', async () => {
  stock = 0;
  const id = await begin('die');
  await become(id, 'dead_letter');
  const waits = await waiting();
  await db.hf.signal(checkout, waits, 'refused', { card: CARD });
  await become(waits, 'dead_letter');
  const fields = new Set<string>();
  const { get } = asking(db.hf, {
    loopback: true,
    redact(value, { field, type }) {
      fields.add(`${field} ${type}`);
      return JSON.parse(JSON.stringify(value).replaceAll(CARD, '****'));
    },
  });
  const { sentAt } = (await get(`/api/runs/${waits}`)).body.signals[0];
  for (const path of [
    ...[`${id}`, `${id}/value?step=charge`, '?state=dead_letter', `${waits}`],
    ...[`${waits}/value?step=${encodeURIComponent(EVIL)}`],
    `${waits}/value?signal=refused&at=${encodeURIComponent(sentAt)}`,
  ]) {
    const { status, text } = await get(`/api/runs${path.startsWith('?') ? path : `/${path}`}`);
    expect([path, status, text.includes(CARD), text.includes('****')]).toEqual([
      ...[path, 200, false, true],
    ]);
  }
  expect([...fields].sort()).toEqual(
    expect.arrayContaining(['error checkout', 'payload checkout', 'result checkout']),
  );
});

test('a run is cancelled with undo, and a dead letter retried from a step, with a row in the audit', async () => {
  stock = 0;
  undone.length = 0;
  const { get, post } = dashboard();
  const id = await waiting();
  const cancelled = await post(`/api/runs/${id}/cancel`, { queue: 'inbox', undo: true });
  expect(cancelled.body).toEqual({ moved: [id] });
  await become(id, 'cancelled');
  expect(undone).toEqual(['charge']);
  expect((await get(`/api/runs/${id}`)).body.undo).toMatchObject({ left: [] });

  const dead = await begin('die');
  await become(dead, 'dead_letter');
  const { body } = await get(`/api/runs/${dead}`);
  expect(body).toMatchObject({ undo: { left: [] } });
  expect(body.undo.why).toContain('no stock');
  expect(body.steps).toMatchObject([{ kind: 'step' }, { kind: 'step' }, { kind: 'undo' }]);
  const from = async (step: string) =>
    (await post(`/api/runs/${dead}/retry`, { queue: 'inbox', from: step })).status;
  expect(await from('no such step')).toBe(409);
  stock = 1;
  expect(await from('reserve')).toBe(200);
  await become(dead, 'completed');
  const acts = (await db.hf.audit()).acts.slice(0, 2).map(({ act, actor }) => [act, actor]);
  expect(acts).toEqual([
    ['retry', 'ada'],
    ['cancel', 'ada'],
  ]);
  const bad = { queue: 'inbox', undo: 'yes' };
  expect((await post(`/api/runs/${dead}/cancel`, bad)).status).toBe(400);
});

test('children are counted, those that failed are named, and they and their parent know each other', async () => {
  const id = await begin('split');
  await become(id, 'completed');
  const { get } = dashboard();
  const { steps } = (await get(`/api/runs/${id}`)).body;
  const { children, kind } = steps[1];
  expect([kind, children]).toMatchObject(['children', { count: 3, dead: 1, cancelled: 0 }]);
  expect(children.failed).toMatchObject([{ n: 1 }]);
  const lost = (await get(`/api/jobs/${children.failed[0].id}`)).body;
  expect(lost.job).toMatchObject({ type: 'parcel', status: 'dead_letter' });
  expect(lost.isRun).toBe(false);
  expect((await get(`/api/runs/${children.first[0].id}`)).status).toBe(404);
  expect((await get(`/api/jobs/${id}`)).body).toMatchObject({ isRun: true, parent: null });

  await db.hf.pause('inbox', { type: 'parcel' });
  const other = await begin('split');
  await become(other, 'waiting');
  const open = (await get(`/api/runs/${other}`)).body.steps[1];
  expect(open).toMatchObject({ remaining: 3, children: { count: 3 } });
  const child = (await get(`/api/jobs/${open.children.first[0].id}`)).body;
  expect(child.parent).toEqual({ queue: 'inbox', id: other, step: 'parcels' });
  await db.hf.resume('inbox', { type: 'parcel' });
  await db.hf.wait(other);
});

test('without the right to write, and from another site, nothing is done', async () => {
  const id = await waiting();
  const body = { queue: 'inbox', name: 'approved' };
  const reader = asking(db.hf, { loopback: true });
  const { ask } = dashboard();
  for (const act of ['signal', 'cancel', 'retry']) {
    const path = `/api/runs/${id}/${act}`;
    expect((await reader.post(path, body)).status, act).toBe(403);
    const headers = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' };
    const foreign = { ...headers, 'x-holdfast': '1', 'sec-fetch-site': 'cross-site' };
    for (const from of [headers, foreign]) {
      const init = { method: 'POST', headers: from, body: JSON.stringify(body) };
      expect((await ask(path, init)).status, act).toBe(403);
    }
  }
  expect((await db.hf.steps(id)).signals).toEqual([]);
  expect(await state(id)).toBe('waiting');
});
