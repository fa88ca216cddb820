/** What the command line knows, a program can ask: jobs, queues, workers, why, and the doctor. */
import { beforeAll, beforeEach, expect, expectTypeOf, test } from 'vitest';
import { type Job, type JobState, job } from '../../packages/holdfast/src/index.js';
import { cancelOwn } from '../../packages/holdfast/src/settle/cancel.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { fail } from '../../packages/holdfast/src/settle/fail.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { call } from '../support/cli-run.js';
import { INBOX, testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const receipt = job<{ orderId: number }>('receipt');
const WHY = { error: 'Error: no paper', summary: 'no paper' };

beforeAll(() => db.hf.createQueue('ledger', { ordering: 'key', deadLetters: 'hold' }));
beforeEach(() =>
  db.rows(`TRUNCATE holdfast.inbox, holdfast.inbox_archive, holdfast.inbox_claims, holdfast.ledger;
    DELETE FROM holdfast.workers`),
);

async function claimed(orderId = 9182) {
  const headers = { tenant: 'acme' };
  await db.hf.enqueue(receipt, { orderId }, { partitionKey: `order:${orderId}`, headers });
  return heldOf((await claimAs(db.engine, 'w1', { types: ['receipt'] }))[0]!);
}

test('a job has its payload parsed, its times as Dates and a status of a few words', async () => {
  const held = await claimed();
  await fail(db.engine, INBOX, 'w1', [{ ...held, ...WHY, delayMs: 60_000 }]);
  const found = await db.hf.job(held.id);
  expectTypeOf(found).toEqualTypeOf<Job | null>();
  expectTypeOf<Job['status']>().toEqualTypeOf<JobState>();
  expectTypeOf<Job['createdAt']>().toEqualTypeOf<Date>();
  expectTypeOf<Job['runAt']>().toEqualTypeOf<Date | null>();
  expect(found).toMatchObject({
    ...{ id: held.id, queue: 'inbox', archived: false, status: 'pending', type: 'receipt' },
    ...{ partitionKey: 'order:9182', attempts: 1, maxAttempts: 5, priority: 2, claimedAt: null },
    payload: { orderId: 9182 },
    headers: { tenant: 'acme' },
    history: [
      { attempt: 1, at: expect.any(Date), outcome: 'failed', worker: 'w1', error: 'no paper' },
    ],
    lastError: 'Error: no paper',
    result: null,
    completedAt: null,
  });
  expect(found!.createdAt).toBeInstanceOf(Date);
  expect(found!.runAt!.getTime()).toBeGreaterThan(found!.createdAt.getTime() + 50_000);
});

test('a job is found in the archive and in any queue; nobody is null', async () => {
  const held = await claimed();
  await complete(db.engine, INBOX, 'w1', [{ ...held, result: '{"sent":true}' }]);
  const archived = await db.hf.job(held.id);
  expect(archived).toMatchObject({ archived: true, status: 'completed', result: { sent: true } });
  expect(archived!.completedAt).toBeInstanceOf(Date);
  const entry = job('entry', { queue: 'ledger' });
  const { id } = await db.hf.enqueue(entry, {});
  expect(await db.hf.job(id)).toMatchObject({ queue: 'ledger', headers: {}, history: [] });
  expect(await db.hf.job(id, { queue: 'inbox' })).toBeNull();
  expect(await db.hf.job(crypto.randomUUID())).toBeNull();
  await expect(db.hf.job('9182')).rejects.toMatchObject({ code: 'OPTION_INVALID' });
});

test('a discarded dead letter is called so', async () => {
  const held = await claimed();
  await deadLetter(db.engine, INBOX, 'w1', [{ ...held, ...WHY }]);
  expect(await db.hf.job(held.id)).toMatchObject({ status: 'dead_letter', runAt: null });
  await db.hf.discard([held.id]);
  expect(await db.hf.job(held.id)).toMatchObject({ status: 'discarded', archived: true });
});

test('jobs come page by page, those that the filter names', async () => {
  const items = Array.from({ length: 25 }, (_, n) => receipt.item({ orderId: n }));
  const ids = (await db.hf.enqueueMany(items)).map(({ id }) => id);
  await db.hf.enqueue(job('other'), {}, { partitionKey: 'k' });
  const seen: string[] = [];
  let after: string | null = null;
  let pages = 0;
  do {
    const page = await db.hf.jobs({
      filter: { type: 'receipt' },
      after,
      limit: 10,
      order: 'oldest',
    });
    expect(page.jobs.every(({ createdAt }) => createdAt instanceof Date)).toBe(true);
    seen.push(...page.jobs.map(({ id }) => id));
    after = page.next;
    pages++;
  } while (after !== null);
  expect(seen).toEqual(ids.toSorted());
  expect(pages).toBe(3);
  expect((await db.hf.jobs({ filter: { partitionKey: 'k' } })).jobs).toMatchObject([
    { type: 'other', queue: 'inbox', status: 'pending', completedAt: null },
  ]);
  expect((await db.hf.jobs({ filter: { status: 'processing' } })).jobs).toEqual([]);
  expect((await db.hf.jobs({ queue: 'ledger' })).jobs).toEqual([]);
});

test('finished jobs come from the archive, page by page', async () => {
  for (let n = 0; n < 4; n++) await complete(db.engine, INBOX, 'w1', [await claimed(n)]);
  await cancelOwn(db.engine, INBOX, 'w1', [{ ...(await claimed(4)), reason: 'withdrawn' }]);
  const filter = { status: ['completed', 'cancelled'] } as const;
  const first = await db.hf.jobs({ filter, limit: 3 });
  expect(first.jobs[0]).toMatchObject({ status: 'cancelled', lastError: 'withdrawn' });
  expect(first.jobs[0]!.completedAt).toBeInstanceOf(Date);
  // A page that took long says where to go on, though there is no more.
  let { next } = first;
  const rest: unknown[] = [];
  while (next !== null) {
    const page = await db.hf.jobs({ filter, limit: 3, after: next });
    rest.push(...page.jobs);
    next = page.next;
  }
  expect([first.jobs.length, rest.length]).toEqual([3, 2]);
});

test.each([
  [
    'a part that there is not',
    { filter: { typ: 'x' } },
    /no part "typ"; it has status, type, partitionKey/,
  ],
  ['a status that there is not', { filter: { status: 'done' } }, /no status "done"/],
  ['both places', { filter: { status: ['pending', 'completed'] } }, /the queue or the archive/],
  ['no filter', { filter: 'receipt' }, /must be an object, not "receipt"/],
  ['a type that is no text', { filter: { type: 7 } }, /filter\.type must be a text/],
  ['no types', { filter: { type: [] } }, /filter\.type must be a text/],
  ['no error', { filter: { error: '' } }, /filter\.error must be a text that is not empty/],
  ['an age that is none', { filter: { older: 'old' } }, /filter\.older must be a duration/],
  ['a place elsewhere', { after: 'page 2' }, /after is "page 2", which is no place/],
  ['a limit of none', { limit: 0 }, /limit must be a whole number from 1 to 1000/],
])('a list of %s is refused', async (_, request, message) => {
  await expect(db.hf.jobs(request as never)).rejects.toMatchObject({
    code: 'OPTION_INVALID',
    message: expect.stringMatching(message),
  });
});

test('a list of a queue that is not there says so', async () => {
  await expect(db.hf.jobs({ queue: 'nope' })).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' });
});

test('explain says why a job does not run, and shows no payload', async () => {
  const { id } = await db.hf.enqueue(receipt, { orderId: 9182 }, { delay: '1h' });
  const answer = await db.hf.explain(id);
  expect([answer.code, ...answer.also.map(({ code }) => code)]).toEqual(['no_worker', 'not_due']);
  expect(answer.job).toMatchObject({ id, status: 'pending', type: 'receipt' });
  expect(answer.job!.runAt).toBeInstanceOf(Date);
  expect(answer.job).not.toHaveProperty('payload');
  const nobody = await db.hf.explain(crypto.randomUUID());
  expect(nobody).toMatchObject({ code: 'unknown', job: null });
});

test('queues and workers are told with figures and Dates', async () => {
  const held = gate();
  await db.hf.enqueue(receipt, { orderId: 1 });
  await db.hf.enqueue(receipt, { orderId: 2 }, { delay: '1h' });
  const { worker } = start(db.hf, (w) => w.handle(receipt, () => held.opened), {
    metadata: { version: '1.4.2' },
  });
  await until('it runs', async () => (await db.hf.queues())[0]?.processing === 1);
  const [inbox, ledger] = await db.hf.queues();
  expect(inbox).toMatchObject({
    ...{ queue: 'inbox', paused: false, ordering: 'none', pending: 1, scheduled: 1, deadLetter: 0 },
    ...{ oldestDue: null, archiveRetentionMs: 7 * 86_400_000, approximate: false },
    createdAt: expect.any(Date),
  });
  expect(ledger).toMatchObject({ queue: 'ledger', ordering: 'key_strict', pending: 0 });
  const [seen] = await db.hf.workers();
  expect(seen).toMatchObject({
    ...{ id: worker.id, status: 'alive', held: 1, expired: 0, handles: { inbox: { receipt: 1 } } },
    ...{ startedAt: expect.any(Date), oldestClaim: expect.any(Date) },
  });
  expect(seen!.metadata).toMatchObject({ version: '1.4.2' });
  held.open();
  await worker.stop();
  expect(await db.hf.workers()).toEqual([]);
  expect(await db.hf.workers({ all: true })).toMatchObject([{ id: worker.id, status: 'dead' }]);
});

test('the doctor tells what it looked at, and leaves no connection', async () => {
  await db.hf.enqueue(receipt, { orderId: 1 });
  const findings = await db.hf.doctor();
  expect(findings.find(({ check }) => check === 'schema')).toMatchObject({ level: 'ok' });
  expect(findings.find(({ check }) => check === 'workers')).toMatchObject({
    level: 'problem',
    text: 'No worker is alive and 1 job waits.',
    fix: 'holdfast work',
  });
  // An idle connection would go by itself after 10 s.
  await until(
    'its connections are closed',
    async () => {
      const rows = await db.rows(
        `SELECT FROM pg_stat_activity WHERE application_name = 'holdfast doctor' AND datname = current_database()`,
      );
      return rows.length === 0;
    },
    { timeoutMs: 5_000 },
  );
});

test('how fast jobs end is not known of a queue that keeps no archive, here and in the shell', async () => {
  await db.hf.createQueue('unkept');
  await db.hf.configureQueue('unkept', { archiveRetention: 0 });
  const speeds = new Map(
    (await db.hf.queues()).map(({ queue, completedPerSecond }) => [queue, completedPerSecond]),
  );
  expect(speeds.get('unkept')).toBeNull();
  expect(speeds.get('inbox')).toBeTypeOf('number');
  const { out } = await call(['status', '--queue', 'unkept'], { env: { DATABASE_URL: db.url } });
  expect(out).toMatch(/^unkept .* - +time +open$/m);
  expect(out).not.toMatch(/0\.0 +time/);
});
