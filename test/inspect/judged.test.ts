/** What the doctor says of workers that vanish, of rates, and of what a person or a dead letter holds back. */
import { beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { busyText } from '../../packages/holdfast/src/cli/print/views.js';
import { LIMITS } from '../../packages/holdfast/src/inspect/doctor/doctor.js';
import { judgeTrouble } from '../../packages/holdfast/src/inspect/doctor/fleet.js';
import { judgeRates } from '../../packages/holdfast/src/inspect/doctor/queues.js';
import { judgeVanished } from '../../packages/holdfast/src/inspect/doctor/workers.js';
import { busyOf } from '../../packages/holdfast/src/inspect/fleet/reports.js';
import type { WorkerRow } from '../../packages/holdfast/src/inspect/fleet/workers.js';
import { type LimitRow, rateLine } from '../../packages/holdfast/src/inspect/queue/limits.js';
import { clearAll, plantJob, plantWorker } from '../support/cli-plant.js';
import { call, values } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { examine } from '../support/doctor.js';

const db = testDatabase();
beforeAll(() => db.hf.createQueue('orders', { ordering: 'key', deadLetters: 'hold' }));
beforeEach(async () => {
  await clearAll(db);
  await plantWorker(db, {
    id: 'w1',
    handles: { inbox: { send_receipt: 1 }, orders: { send_receipt: 1 } },
  });
});

const MINUTE = 60_000;
const at = (minutes: number) => new Date(minutes * MINUTE).toISOString();

/** It lived from minute `from` to minute `to` of an hour. */
const dead = (id: string, from: number, to: number, more: Partial<WorkerRow> = {}): WorkerRow => ({
  ...{ id, status: 'dead', startedAt: at(from), lastSeenAt: at(to), silentMs: (60 - to) * MINUTE },
  ...{
    upMs: 0,
    leftAt: null,
    holdsLivenessLock: false,
    releasedAll: false,
    handles: {},
    workflows: null,
  },
  metadata: { host: 'box', pid: 7 },
  ...more,
});

test('workers that vanish one after the other on a host are a loop, with the job that was in them', () => {
  const loop = [dead('a', 51, 52), dead('b', 53, 54), dead('c', 55, 56)];
  const job = { queue: 'inbox', id: 'j1', type: 'resize', crashes: 3 };
  const found = judgeVanished(loop, [job], LIMITS);
  expect(found).toMatchObject({
    level: 'problem',
    text:
      '3 workers of box vanished in the last 10 min, the last one 4 min ago: their process starts and ends again and ' +
      'again. In their processes was job j1 (resize in "inbox", 3 times).',
  });
  expect(found.fix).toContain('\nholdfast jobs cancel j1');
  // A deploy that kills all at once is none, nor are those of long ago, or those that left by themselves.
  const once = [dead('a', 10, 55), dead('b', 10, 55), dead('c', 10, 56)];
  expect(judgeVanished(once, [], LIMITS)).toMatchObject({
    level: 'note',
    text: expect.stringMatching(
      /^3 workers vanished in the last 10 min: a \(5 min ago, host box, process 7\), /,
    ),
  });
  expect(judgeVanished([dead('a', 10, 40)], [], LIMITS).level).toBe('ok');
  expect(judgeVanished([dead('a', 10, 55, { leftAt: at(55) })], [], LIMITS).level).toBe('ok');
});

const living = (load: object): WorkerRow =>
  dead('w', 0, 60, {
    ...{ status: 'alive', silentMs: 0, handles: { inbox: {}, slow: {} } },
    metadata: { concurrency: 10, load },
  });
const part = (running: number) => ({
  running,
  held: running,
  handlers: 10,
  fullMs: null,
  started: {},
});

test('handlers are counted for each queue: one that is full is not hidden in a sum', () => {
  const worker = living({ running: 10, queues: { inbox: part(10), slow: part(0) } });
  expect(busyText([worker, worker])).toBe('inbox 20/20 100 %, slow 0/20 0 %');
  expect(busyOf(worker)).toMatchObject({ running: 10, handlers: 20 });
  // One that does not say.
  expect(busyText([living({ running: 10 })])).toBe('10/20 50 %');
});

test('leaked handlers are a problem when they are as many as half of the handlers of a queue', () => {
  const leaked = (inbox: number) =>
    judgeTrouble([living({ queues: { inbox: part(0) }, leaked: { inbox: { mail: inbox } } })])[0];
  expect(leaked(4)).toMatchObject({ level: 'note' });
  expect(leaked(5)).toMatchObject({
    level: 'problem',
    fix: expect.stringContaining('\nholdfast workers drain w'),
  });
});

test('a rate below the demand: until when its line is empty, and that it never is', () => {
  const row = { rateLimit: 60, ratePerMs: MINUTE, keyed: false } as LimitRow;
  const due = (jobs: number, arrived: number, limitKey: string | null = null) => {
    return { type: 'mail', limitKey, jobs, arrived, opensAt: null, more: false };
  };
  expect(rateLine(row, [])).toBeNull();
  expect(rateLine(row, [due(600, 50)])).toEqual({
    emptyInMs: 10 * MINUTE,
    grows: false,
    arrived: 50,
  });
  expect(rateLine(row, [due(600, 90)])?.grows).toBe(true);
  // Each key has the rate for itself.
  const keyed = rateLine({ ...row, keyed: true }, [due(60, 50, 'a'), due(120, 50, 'b')]);
  expect(keyed).toMatchObject({ emptyInMs: 2 * MINUTE, grows: false });
  const line = { queue: 'inbox', type: 'mail', rate: { limit: 60, perMs: MINUTE }, waiting: 600 };
  const judged = (one: object) =>
    judgeRates('inbox', [{ ...line, emptyInMs: 0, grows: false, arrived: 90, ...one }], LIMITS);
  expect(judged({ emptyInMs: 10 * MINUTE })).toMatchObject([{ level: 'ok' }]);
  expect(judged({ emptyInMs: 120 * MINUTE })).toMatchObject([{ level: 'note' }]);
  expect(judged({ emptyInMs: 10 * MINUTE, grows: true })).toMatchObject([
    {
      level: 'problem',
      text:
        '600 due jobs wait for the rate of "mail" jobs of "inbox", 60 in 1 min: they take 10 min, and in the last ' +
        'minute 90 more became due: the line never ends.',
      fix: expect.stringContaining('\nholdfast limits set mail --rate 120/1m'),
    },
  ]);
});

test('what is on hold: who paused it, when and why; it is counted apart and makes no queue late', async () => {
  const error = 'Error: card 4711 was refused';
  const letter = await plantJob(db, {
    ...{ queue: 'orders', key: 'order:1', status: 'dead_letter', error },
    history: [{ at: new Date(), outcome: 'dead_letter' }],
  });
  await plantJob(db, { queue: 'orders', key: 'order:1' });
  await plantJob(db, { type: 'fax', dueInMs: -3_600_000 });
  await plantJob(db);
  await db.hf.pause('inbox', { type: 'fax', actor: 'ann', reason: 'the line is down' });
  onTestFinished(() => db.hf.resume('inbox', { type: 'fax' }));
  const findings = await examine(db.url, { compared: false });
  const of = (check: string) => findings.filter((one) => one.check === check && one.level !== 'ok');
  expect(of('paused')).toMatchObject([
    {
      level: 'note',
      text: expect.stringMatching(
        /^Of the queue "inbox" the type fax by ann \(role .*\) \d+ (ms|s) ago: "the line is down" is paused, with 1 job waiting\.$/,
      ),
    },
  ]);
  expect(of('oldest pending')).toEqual([]);
  expect(of('held keys')).toMatchObject([
    {
      level: 'problem',
      text: expect.stringContaining(
        `1 key of "orders" is held by dead letters, and due jobs wait behind them. The oldest is order:1, held for`,
      ),
      fix: expect.stringContaining(`\nholdfast jobs discard ${letter}\n`),
    },
  ]);
  const { out } = await call(['queues', 'ls', '--json'], { env: { DATABASE_URL: db.url } });
  const inbox = values<{ queue: string }>(out).find(({ queue }) => queue === 'inbox');
  expect(inbox).toMatchObject({ pending: 2, onHold: 1 });
  expect((inbox as unknown as { oldestDueMs: number }).oldestDueMs).toBeLessThan(3_000_000);
  await db.hf.pause('inbox');
  onTestFinished(() => db.hf.resume('inbox'));
  const [paused] = await db.hf.queues();
  expect(paused).toMatchObject({ pending: 2, onHold: 2, oldestDueMs: null });
});
