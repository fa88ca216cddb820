/** Renewals, settles and suspects that cross each other. */
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const work = job<{ n: number }>('work', { retry: () => 0 });

beforeEach(() => db.rows('DELETE FROM holdfast.inbox'));

test('a renewal that crosses the completion of its job does not count it as lost', async () => {
  const total = long(800, 2_000);
  const { worker, events } = start(
    db.hf,
    (w) =>
      w.handle(work, async ({ payload }) => {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 30));
        // A handler that spins: answers of the database and of the keeper pile up and arrive together.
        const until = performance.now() + (payload.n % 20 === 0 ? 20 : 0);
        while (performance.now() < until);
      }),
    { concurrency: 50, lease: '10s', renewEvery: '10ms' },
  );
  await db.hf.enqueueMany(Array.from({ length: total }, (_, n) => work.item({ n })));
  await until('all ran', () => worker.stats.completed === total);
  expect(worker.stats).toMatchObject({ completed: total, lost: 0, failed: 0 });
  expect(events.filter(({ kind }) => kind === 'lost')).toEqual([]);
});

test('a suspect that runs alone is settled before the next one runs, so that a crash can be nobody else', async () => {
  await db.hf.enqueueMany([0, 1].map((n) => work.item({ n }, { delay: '1h' })));
  await db.rows('UPDATE holdfast.inbox SET crashes = 4, available_at = now()');
  const ran: number[] = [];
  const begun = gate();
  const finish = gate();
  start(db.hf, (w) =>
    w.handle(work, async ({ payload }) => {
      ran.push(payload.n);
      begun.open();
      if (ran.length === 1) await finish.opened;
    }),
  );
  await begun.opened;
  const [first] = ran;
  // Somebody looks at the row of the first one, and its completion has to wait.
  const other = await db.pool.connect();
  await other.query('BEGIN');
  await other.query(`SELECT 1 FROM holdfast.inbox WHERE payload ->> 'n' = $1 FOR UPDATE`, [
    String(first),
  ]);
  finish.open();
  await until('the completion waits', async () => {
    const [row] = await db.rows<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity
       WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    return row?.n === 1;
  });
  for (let turns = 0; turns < 20; turns++) await db.rows('SELECT 1');
  const early = [...ran];
  await other.query('ROLLBACK');
  other.release();
  await until('both ran', () => ran.length === 2);
  expect(early).toEqual([first]);
});

test('the row of a job that crashed before says that it was started before its handler is called', async () => {
  await db.hf.enqueueMany([0, 1].map((n) => work.item({ n }, { delay: '1h' })));
  await db.rows(
    `UPDATE holdfast.inbox SET crashes = (payload ->> 'n')::integer, available_at = now()`,
  );
  const seen: unknown[][] = [];
  const { worker } = start(db.hf, (w) =>
    w.handle(work, async ({ id, payload }) => {
      const [row] = await db.rows('SELECT started FROM holdfast.inbox WHERE id = $1', [id]);
      seen.push([payload.n, row?.started]);
    }),
  );
  await until('both ran', () => worker.stats.completed === 2);
  // For the first crash it makes no difference.
  expect(seen.sort()).toEqual([
    [0, false],
    [1, true],
  ]);
});

test('the handler of a job that crashed before is not called if the job is not ours when its row is marked', async () => {
  await db.hf.enqueue(work, { n: 0 }, { delay: '1h' });
  await db.rows('UPDATE holdfast.inbox SET crashes = 1, available_at = now()');
  // As if it had been cancelled, or its lease had run out, just before.
  await db.rows(`CREATE FUNCTION public.not_ours() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TRIGGER not_ours BEFORE UPDATE ON holdfast.inbox FOR EACH ROW
      WHEN (NEW.started AND NOT OLD.started) EXECUTE FUNCTION public.not_ours()`);
  onTestFinished(async () => void (await db.rows('DROP FUNCTION public.not_ours() CASCADE')));
  let ran = 0;
  const { worker } = start(db.hf, (w) => w.handle(work, () => void ran++));
  await until('it has left', () => worker.stats.lost + worker.stats.completed === 1);
  expect([ran, worker.stats.lost]).toEqual([0, 1]);
});

test('a job whose claim was answered late is not started on a lease that cannot be renewed in time', async () => {
  await db.rows(`CREATE FUNCTION slow_claim() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END $$`);
  await db.rows(`CREATE TRIGGER slow_claim BEFORE UPDATE ON holdfast.inbox FOR EACH ROW
    WHEN (OLD.status = 'pending' AND NEW.status = 'processing') EXECUTE FUNCTION slow_claim()`);
  onTestFinished(async () => void (await db.rows('DROP FUNCTION slow_claim CASCADE')));
  const handler = () => new Promise<void>((resolve) => setTimeout(resolve, 1_000));
  const { worker } = start(db.hf, (w) => w.handle(work, handler), { lease: '3s' });
  await db.hf.enqueue(work, { n: 1 });
  const asleep = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`;
  await until('it is being claimed', async () => (await db.rows(asleep)).length > 0, {
    everyMs: 5,
  });
  // A handler of another queue computes, say.
  for (const end = performance.now() + 2_600; performance.now() < end; );
  await until('it is over', () => worker.stats.completed + worker.stats.lost > 0);
  expect(worker.stats).toMatchObject({ completed: 1, lost: 0 });
});
