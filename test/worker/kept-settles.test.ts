/**
 * Settles that the database refuses to everybody: a right was revoked, a table is locked. Nobody's handler has failed,
 * so no attempt is spent and no effect is repeated: the outcomes are kept, and written once the database takes them.
 */
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { holdfast, job, type WorkerEvent } from '../../packages/holdfast/src/index.js';
import { collectMetrics } from '../../packages/holdfast/src/metrics/index.js';
import { testDatabase } from '../support/database.js';
import { examine } from '../support/doctor.js';
import { recordingLogger } from '../support/logger.js';
import { testRoles } from '../support/roles.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const { members, role } = testRoles(db, { prefix: 'holdfast_kept' });
const work = job<{ n: number }>('work', { retry: () => 0, maxAttempts: 3 });
const CONCURRENCY = 4;

const mayNot = () => db.rows(`REVOKE INSERT ON holdfast.inbox_archive FROM ${role('worker')}`);
const mayAgain = () => db.rows(`GRANT INSERT ON holdfast.inbox_archive TO ${role('worker')}`);

beforeEach(() => db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_archive, holdfast.inbox_claims'));
afterEach(mayAgain);

/** A Holdfast of the worker's role, whose log is kept. */
function client() {
  const log = recordingLogger();
  const hf = holdfast({ connectionString: members.worker.url, logger: log });
  onTestFinished(() => hf.close());
  return { hf, log };
}

const keptBy = (events: readonly WorkerEvent[]) =>
  events.reduce((sum, event) => (event.kind === 'settles-kept' ? sum + event.change : sum), 0);

test('completions that are refused for want of a right are kept: each handler runs once, and no attempt fails', async () => {
  const total = 60;
  await db.hf.enqueueMany(Array.from({ length: total }, (_, n) => work.item({ n })));
  const { hf, log } = client();
  const scrape = collectMetrics(hf);
  onTestFinished(() => scrape.close());
  const runs: number[] = [];
  await mayNot();
  const { worker, events } = start(
    hf,
    (w) =>
      w.handle(work, async ({ payload }) => {
        runs.push(payload.n);
        await new Promise((resolve) => setImmediate(resolve));
      }),
    { concurrency: CONCURRENCY, prefetch: 0, heartbeat: '50ms', ttl: '10s' },
  );
  await until('as many are kept as handlers run', () => keptBy(events) >= CONCURRENCY);
  const refused = () => events.filter((event) => event.kind === 'error').length;
  const [before, ran] = [refused(), runs.length];
  await until('they were tried again', () => refused() > before + 3);
  // No handler after handler whose end cannot be written: the effects of all of them would come twice.
  expect(runs.length).toBe(ran);
  expect(ran).toBeLessThan(total);
  expect(worker.stats).toMatchObject({ completed: 0, failed: 0, dead_letter: 0, lost: 0 });
  expect(await scrape.text()).toMatch(/^holdfast_settles_kept\{queue="inbox"\} [1-9]/m);
  const said = log.lines.filter(({ message }) =>
    message?.startsWith('the database refuses to write'),
  );
  expect(said).toHaveLength(1);
  expect(said[0]).toMatchObject({ level: 'error', facts: { queue: 'inbox', code: '42501' } });
  const finding = await until('the doctor knows', async () =>
    (await examine(db.url, { compared: false })).find(
      ({ check, level }) => check === 'refused outcomes' && level === 'problem',
    ),
  );
  expect(finding.text).toMatch(new RegExp(`of "inbox" in worker ${worker.id} \\(42501 permission`));

  await mayAgain();
  await until('all are completed', () => worker.stats.completed === total);
  expect(runs.toSorted((a, b) => a - b)).toEqual(Array.from({ length: total }, (_, n) => n));
  expect(worker.stats).toMatchObject({ failed: 0, dead_letter: 0, lost: 0 });
  const rows = await db.rows<{ attempts: number }>('SELECT attempts FROM holdfast.inbox_archive');
  expect(rows.every(({ attempts }) => attempts === 1)).toBe(true);
  expect(keptBy(events)).toBe(0);
  expect(await scrape.text()).toMatch(/^holdfast_settles_kept\{queue="inbox"\} 0$/m);
  expect(log.lines.map(({ message }) => message)).toContain(
    'the database takes the outcomes of jobs again',
  );
});

test('a worker that is stopped meanwhile gives the jobs back, and the attempt is not spent', async () => {
  const { id } = await db.hf.enqueue(work, { n: 1 });
  const { hf } = client();
  await mayNot();
  const { worker, events, stop } = start(hf, (w) => w.handle(work, () => {}));
  await until('it is kept', () => keptBy(events) === 1);
  await stop(0);
  expect(worker.stats).toMatchObject({ completed: 0, failed: 0, released: 1 });
  expect(await db.hf.job(id)).toMatchObject({ status: 'pending', attempts: 0, lastError: null });
});

test('while completions are kept the lease is renewed: nobody else runs the job', async () => {
  const { id } = await db.hf.enqueue(work, { n: 1 });
  const { hf } = client();
  await mayNot();
  let runs = 0;
  const lease = { lease: '600ms', renewEvery: '200ms', maintenance: '100ms' } as const;
  const one = start(hf, (w) => w.handle(work, () => void runs++), lease);
  await until('it is kept', () => keptBy(one.events) === 1);
  start(db.hf, (w) => w.handle(work, () => void runs++), lease);
  const leased = async () => {
    const [row] = await db.rows<{ until: Date }>(
      'SELECT lease_expires_at AS until FROM holdfast.inbox WHERE id = $1',
      [id],
    );
    return row?.until.getTime() ?? 0;
  };
  const first = await leased();
  await until('two leases have passed', async () => (await leased()) > first + 1_200);
  await mayAgain();
  await until('it is completed', () => one.worker.stats.completed === 1);
  expect(runs).toBe(1);
});

test('a job with children is kept too, and its children are written with it', async () => {
  const child = job<{ n: number }>('child');
  await db.hf.enqueue(work, { n: 1 });
  const { hf } = client();
  await mayNot();
  let runs = 0;
  const { worker, events } = start(hf, (w) =>
    w.handle(work, async (ctx) => {
      runs++;
      await ctx.enqueue(child, { n: 2 });
    }),
  );
  await until('it is kept', () => keptBy(events) === 1);
  await mayAgain();
  await until('it is completed', () => worker.stats.completed === 1);
  expect(runs).toBe(1);
  expect(worker.stats).toMatchObject({ failed: 0 });
  expect(await db.rows(`SELECT FROM holdfast.inbox WHERE type = 'child'`)).toHaveLength(1);
});

test('a completion that is refused inside of a transaction spends no attempt: the job goes back', async () => {
  await db.rows('CREATE TABLE IF NOT EXISTS paid (n integer)');
  await db.rows(`GRANT INSERT ON paid TO ${role('worker')}`);
  const { id } = await db.hf.enqueue(work, { n: 1 });
  const { hf } = client();
  await mayNot();
  const attempts: number[] = [];
  const { worker, events, stop } = start(hf, (w) =>
    w.handle(work, async (ctx) => {
      attempts.push(ctx.attempt);
      await ctx.transaction((tx) => tx.query('INSERT INTO paid VALUES (1)'));
    }),
  );
  await until('it was refused', () => keptBy(events) === 1);
  expect(attempts).toEqual([1]);
  // A worker that stops does not wait for better times.
  await stop(10_000);
  expect(worker.stats).toMatchObject({ failed: 0, released: 1 });
  expect(await db.hf.job(id)).toMatchObject({ status: 'pending', attempts: 0, lastError: null });
  await mayAgain();
  const next = start(hf, (w) =>
    w.handle(work, async (ctx) => {
      attempts.push(ctx.attempt);
      await ctx.transaction((tx) => tx.query('INSERT INTO paid VALUES (1)'));
    }),
  );
  await until('it is completed', () => next.worker.stats.completed === 1);
  expect(attempts).toEqual([1, 1]);
  expect(await db.rows('SELECT FROM paid')).toHaveLength(1);
});

test('where only one type is refused, the others are completed meanwhile', async () => {
  const other = job<{ n: number }>('other');
  await db.rows(`CREATE OR REPLACE FUNCTION deny() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF NEW.type = 'work' THEN RAISE EXCEPTION 'no right' USING ERRCODE = '42501'; END IF;
      RETURN NEW;
    END $$`);
  await db.rows(`CREATE TRIGGER deny BEFORE INSERT ON holdfast.inbox_archive
    FOR EACH ROW EXECUTE FUNCTION deny()`);
  const off = () => db.rows('DROP TRIGGER IF EXISTS deny ON holdfast.inbox_archive');
  onTestFinished(() => void off());
  const opened = gate();
  const { worker, events } = start(
    db.hf,
    (w) =>
      w.handle(work, () => opened.opened).handle(other, async () => void (await opened.opened)),
    { concurrency: 100 },
  );
  await db.hf.enqueueMany([
    ...Array.from({ length: 40 }, (_, n) => other.item({ n })),
    ...Array.from({ length: 3 }, (_, n) => work.item({ n })),
  ]);
  await until(
    'all have started',
    () => events.filter(({ kind }) => kind === 'started-job').length === 43,
  );
  opened.open();
  await until('the others are completed', () => worker.stats.completed === 40);
  expect(keptBy(events)).toBe(3);
  await off();
  await until('the rest follows', () => worker.stats.completed === 43);
  expect(worker.stats).toMatchObject({ failed: 0, lost: 0 });
});

test('in a run of a key nothing is completed before the job that is kept, and nothing is run again', async () => {
  await db.hf.createQueue('ledger', { ordering: 'key' });
  const step = job<{ n: number }>('step', { queue: 'ledger' });
  const runs: number[] = [];
  await db.hf.enqueueMany(
    Array.from({ length: 12 }, (_, n) => step.item({ n }, { partitionKey: 'order:1' })),
  );
  await db.rows(`CREATE OR REPLACE FUNCTION deny_all() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'no right' USING ERRCODE = '42501'; END $$`);
  await db.rows(`CREATE TRIGGER deny BEFORE INSERT ON holdfast.ledger_archive
    FOR EACH ROW EXECUTE FUNCTION deny_all()`);
  const { worker, events } = start(db.hf, (w) =>
    w.handle(step, ({ payload }) => void runs.push(payload.n)),
  );
  await until('some are kept', () => keptBy(events) > 0);
  await db.rows('DROP TRIGGER deny ON holdfast.ledger_archive');
  await until('all are completed', () => worker.stats.completed === 12);
  expect(runs).toEqual(Array.from({ length: 12 }, (_, n) => n));
  expect(worker.stats).toMatchObject({ failed: 0, lost: 0 });
});
