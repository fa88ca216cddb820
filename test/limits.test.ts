/** Limits, statement by statement: what a claim under a limit takes, and what becomes of those that wait. */
import pg from 'pg';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  EXPIRED,
  HANDLED,
  LIMITS_KNOWN,
  RECORD_CLAIM,
  RETURN_TAKEN,
  TAKE,
} from '../src/claim/taking.js';
import { queueSettings } from '../src/fleet/registry.js';
import { type Holdfast, job } from '../src/index.js';
import { prune, pruneRates } from '../src/maintenance/prune.js';
import { recover } from '../src/maintenance/recover.js';
import { engineConfig } from '../src/postgres/pool.js';
import { engineExecutor } from '../src/postgres/queryable.js';
import { claimLimited } from '../src/schema/functions/claim-limited.sql.js';
import { complete } from '../src/settle/complete.js';
import { deadLetter } from '../src/settle/dead-letter.js';
import { fail } from '../src/settle/fail.js';
import { snooze } from '../src/settle/release.js';
import type { Settled } from '../src/settle/settled.js';
import { claimByTime, claimSuspected, FRONT, heldOf, numbers } from './support/claiming.js';
import { INBOX, testDatabase } from './support/database.js';
import { claimStep, limitStep } from './support/limited.js';
import { until } from './support/until.js';

const db = testDatabase();
const step = job<{ n: number }>('step');
const other = job<{ n: number }>('other');

beforeEach(async () => {
  for (const table of ['limits', 'inbox', 'inbox_claims', 'inbox_archive', 'audit'])
    await db.rows(`DELETE FROM holdfast.${table}`);
});

const enqueue = (count: number, of = step, from = 0) =>
  db.hf.enqueueMany(Array.from({ length: count }, (_, n) => of.item({ n: from + n })));
const taken = async (options = {}, by = 'w') => numbers(await claimStep(db, by, options));
const limitedTypes = async () => {
  const settings = await queueSettings(db.engine, INBOX);
  return settings.find(({ name }) => name === 'inbox')?.limited;
};
const version = async () => (await limitedTypes())?.version as number;
const waiting = () =>
  db.rows<{ n: number; in_ms: number; slot: boolean; attempts: number }>(
    `SELECT (payload ->> 'n')::int AS n, round(extract(epoch FROM available_at - now()) * 1000)::float8 AS in_ms,
       limit_slot = available_at AS slot, attempts FROM holdfast.inbox WHERE status = 'pending'
     ORDER BY available_at, position`,
  );
/** As if so much time had passed. */
const pass = (ms: number) =>
  db.rows(
    `WITH j AS (UPDATE holdfast.inbox SET available_at = available_at - $1 * interval '1 ms',
       limit_slot = limit_slot - $1 * interval '1 ms')
     UPDATE holdfast.rates SET started_tat = started_tat - $1 * interval '1 ms',
       slot_tat = slot_tat - $1 * interval '1 ms'`,
    [ms],
  );

/**
 * A claim of up to 10 by a worker that has been there before, with how many rows of the queue it read, by the server's
 * own count of a transaction.
 */
async function readsOfClaim(afterAt = '-infinity') {
  const client = new pg.Client(engineConfig({ connectionString: db.url }));
  await client.connect();
  const engine = engineExecutor(client, { prepare: true });
  const count = async () => {
    const { rows } = await client.query(
      `SELECT (seq_tup_read + idx_tup_fetch)::int AS n FROM pg_stat_xact_user_tables
       WHERE schemaname = 'holdfast' AND relname = 'inbox'`,
    );
    return rows[0].n as number;
  };
  try {
    await client.query('BEGIN');
    const before = await count();
    const cursors = FRONT.map((cursor) => ({ ...cursor, afterAt }));
    const { jobs } = await claimStep({ ...db, engine }, 'w', { limit: 10, cursors });
    const reads = (await count()) - before;
    await client.query('COMMIT');
    return { jobs, reads };
  } finally {
    await client.end();
  }
}

/** Waits until so many sessions wait for a lock in such statements. */
const lockedOut = (count: number, ...texts: readonly string[]) =>
  until(`${count} wait for a lock`, async () => {
    const rows = await db.rows(
      `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE ANY ($1::text[])`,
      [texts.map((text) => `%${text}%`)],
    );
    return rows.length === count;
  });

test('takes a job with the text of all other claims', () => {
  const plain = (text: string) => text.replace(/\s+/g, ' ');
  for (const text of [TAKE, RETURN_TAKEN, RECORD_CLAIM, EXPIRED, HANDLED, LIMITS_KNOWN])
    expect(plain(claimLimited.text)).toContain(plain(text));
});

describe('a concurrency', () => {
  test('is never exceeded, and a place is free when its job is settled', async () => {
    await limitStep(db, { concurrency: 3 });
    await enqueue(10);
    const first = await claimStep(db, 'one', { limit: 2 });
    expect(numbers(first)).toEqual([0, 1]);
    expect(await taken({}, 'two')).toEqual([2]);
    expect(await taken({}, 'three')).toEqual([]);
    expect((await claimStep(db, 'three')).waits).toBe(true);
    await complete(db.engine, INBOX, 'one', first.jobs.map(heldOf));
    expect(await taken({}, 'three')).toEqual([3, 4]);
  });

  test('says where the next claim begins, also when it took all that it wanted', async () => {
    await limitStep(db, { concurrency: 10 });
    await enqueue(5);
    const { jobs, left, waits } = await claimStep(db, 'w', { limit: 3 });
    expect(numbers({ jobs })).toEqual([0, 1, 2]);
    expect(waits).toBe(true);
    expect(left?.cursorPosition).toBe((jobs[2]?.cursorPosition as number) + 1);
    expect((await claimStep(db, 'w', { limit: 2 })).left).toBeNull();
  });

  test('holds for a whole queue, beside that of a type', async () => {
    await limitStep(db, { concurrency: 3 });
    await db.hf.configureQueue('inbox', { limit: { concurrency: 4 } });
    await enqueue(10);
    await enqueue(10, other, 100);
    const others = { ofType: null, versions: { other: 1 } };
    expect(await taken({ limit: 2 })).toEqual([0, 1]);
    expect(await taken({ ...others, limit: 1 })).toEqual([100]);
    // One place is left of four, and one of three.
    expect(await taken()).toEqual([2]);
    expect(await taken(others)).toEqual([]);
    await db.hf.configureQueue('inbox', { limit: null });
    expect(await taken()).toEqual([]);
  });

  test('twenty that claim at once take no more than there are places', async () => {
    await limitStep(db, { concurrency: 7 });
    await enqueue(100);
    const claims = await Promise.allSettled(
      Array.from({ length: 20 }, (_, n) => claimStep(db, `w${n}`, { limit: 3 })),
    );
    // On a slow machine some do not get the lock in time.
    const found = claims.flatMap((one) => (one.status === 'fulfilled' ? numbers(one.value) : []));
    expect([...found, ...(await taken())].sort()).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });

  test('counts a job whose lease ran out once, and its next owner has its place', async () => {
    await limitStep(db, { concurrency: 2 });
    await enqueue(5);
    expect(await taken({}, 'gone')).toEqual([0, 1]);
    await db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 second'
      WHERE status = 'processing'`);
    const claims = await Promise.all(['a', 'b', 'c'].map((by) => claimStep(db, by, { limit: 1 })));
    expect(claims.flatMap(numbers).sort()).toEqual([0, 1]);
    expect(await taken()).toEqual([]);
    const [row] = await db.rows(`SELECT count(*)::int AS running FROM holdfast.inbox
      WHERE status = 'processing'`);
    expect(row).toEqual({ running: 2 });
  });

  test('gives what has waited for too long a share, however urgent the others are', async () => {
    await limitStep(db, { concurrency: 1 });
    await db.hf.enqueueMany(
      Array.from({ length: 200 }, (_, n) => step.item({ n }, { priority: 1 })),
    );
    const [aged] = await db.hf.enqueueMany([step.item({ n: 4_000 }, { priority: 4 })]);
    const [young] = await db.hf.enqueueMany([step.item({ n: 4_001 }, { priority: 4 })]);
    await db.rows(
      `UPDATE holdfast.inbox SET available_at = now() - interval '11 min' WHERE id = $1`,
      [aged?.id],
    );
    const found: number[] = [];
    // Each has a chance of a quarter: 150 in vain happen once in 10^18 times.
    for (let n = 0; n < 150 && !found.includes(4_000); n++) {
      const { jobs } = await claimStep(db, 'w');
      expect(jobs).toHaveLength(1);
      found.push(...numbers({ jobs }));
      await complete(db.engine, INBOX, 'w', jobs.map(heldOf));
    }
    expect(found).toContain(4_000);
    expect(found).not.toContain(4_001);
    // The urgent ones are taken in their order, and none is passed over.
    expect(found.filter((n) => n < 4_000)).toEqual(
      Array.from({ length: found.length - 1 }, (_, n) => n),
    );
    expect(await db.hf.job(young?.id as string)).toMatchObject({ status: 'pending' });
  });

  test('of a dead worker comes back with its jobs', async () => {
    await limitStep(db, { concurrency: 2 });
    await enqueue(3);
    expect(await taken({}, 'dead')).toEqual([0, 1]);
    expect(await taken()).toEqual([]);
    await db.rows(`INSERT INTO holdfast.workers (id, status) VALUES ('dead', 'dead')`);
    await recover(db.engine, INBOX, { limit: 10, recoverer: 'w' });
    expect(await taken()).toEqual([0, 1]);
    expect(await taken()).toEqual([]);
  });

  test('holds for suspects, which run one at a time', async () => {
    await limitStep(db, { concurrency: 1 });
    await enqueue(3);
    await db.rows(`UPDATE holdfast.inbox SET crashes = 2 WHERE (payload ->> 'n')::int > 0`);
    const [held] = (await claimStep(db, 'w')).jobs;
    expect(await taken({ suspects: true })).toEqual([]);
    await complete(db.engine, INBOX, 'w', [heldOf(held as never)]);
    expect(await taken({ suspects: true })).toEqual([1]);
    expect(await taken({ suspects: true })).toEqual([]);
    expect(await taken()).toEqual([]);
    // Ordinary claims of suspects leave limited types out: their worker does not name them.
    const claimed = await claimSuspected(db.engine, 'x', { versions: { other: 1 } });
    expect(claimed.jobs).toEqual([]);
  });
});

describe('a rate', () => {
  const rate = { limit: 10, perMs: 600_000, burst: 2 };

  test('lets a burst start, and gives the others a slot each, once', async () => {
    await limitStep(db, { rate });
    await enqueue(6);
    const claimed = await claimStep(db, 'w');
    expect(numbers(claimed)).toEqual([0, 1]);
    expect(claimed.throttled).toBe(4);
    expect(claimed.againMs).toBeGreaterThan(0);
    expect(claimed.againMs).toBeLessThanOrEqual(60_001);
    const slots = await waiting();
    expect(slots.map(({ n, slot, attempts }) => [n, slot, attempts])).toEqual([
      [2, true, 0],
      [3, true, 0],
      [4, true, 0],
      [5, true, 0],
    ]);
    const gaps = slots.slice(1).map(({ in_ms }, n) => in_ms - (slots[n]?.in_ms as number));
    for (const gap of gaps) expect(Math.abs(gap - 60_000)).toBeLessThan(3);
    expect(await taken()).toEqual([]);
    await pass(60_100);
    expect(await taken()).toEqual([2]);
    await pass(150_000);
    // The slots of both have come, and there are tokens for both.
    expect(await taken()).toEqual([3, 4]);
  });

  test('costs a job that waits one update, and a job that does not wait none', async () => {
    await limitStep(db, { rate });
    const enqueued = await enqueue(50);
    await db.rows(`CREATE TABLE updates AS SELECT id, 0 AS times FROM holdfast.inbox`);
    await db.rows(`CREATE FUNCTION count_update() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      UPDATE updates SET times = times + 1 WHERE id = NEW.id; RETURN NULL; END $$`);
    await db.rows(`CREATE TRIGGER counting AFTER UPDATE ON holdfast.inbox
      FOR EACH ROW EXECUTE FUNCTION count_update()`);
    let done = 0;
    for (let round = 0; done < enqueued.length && round < 100; round++) {
      for (const by of ['w', 'v']) {
        const { jobs } = await claimStep(db, by);
        await complete(db.engine, INBOX, by, jobs.map(heldOf));
        done += jobs.length;
      }
      await db.rows('ALTER TABLE holdfast.inbox DISABLE TRIGGER counting');
      await pass(60_000);
      await db.rows('ALTER TABLE holdfast.inbox ENABLE TRIGGER counting');
    }
    expect(done).toBe(50);
    const rows = await db.rows(`SELECT times, count(*)::int AS jobs FROM updates GROUP BY times
      ORDER BY times`);
    await db.rows(
      'DROP TRIGGER counting ON holdfast.inbox; DROP FUNCTION count_update; DROP TABLE updates',
    );
    // A claim each; and for all but the first burst the move to its slot.
    expect(rows).toEqual([
      { times: 1, jobs: 2 },
      { times: 2, jobs: 48 },
    ]);
  });

  test('lets nobody overtake those that wait', async () => {
    await limitStep(db, { rate });
    await enqueue(4);
    await taken();
    await enqueue(1, step, 10);
    await pass(60_100);
    expect(await taken()).toEqual([2]);
    expect((await waiting()).map(({ n }) => n)).toEqual([3, 10]);
    await pass(600_000);
    expect(await taken()).toEqual([3, 10]);
    // Nobody waits any more: a new one starts at once.
    await pass(600_000);
    await enqueue(1, step, 20);
    expect(await taken()).toEqual([20]);
    // One that waits is cancelled, and nobody has its slot: the line keeps its order all the same.
    await limitStep(db, { rate: { limit: 1, perMs: 60_000, burst: 1 } });
    await pass(1_200_000);
    await enqueue(3, step, 30);
    expect(await taken()).toEqual([30]);
    await db.rows(`DELETE FROM holdfast.inbox WHERE payload ->> 'n' = '31'`);
    await pass(61_000);
    await enqueue(1, step, 40);
    expect(await taken()).toEqual([32]);
    expect((await waiting()).map(({ n }) => n)).toEqual([40]);
  });

  test('is used in full where others have left the line: who comes next comes before its slot', async () => {
    await limitStep(db, { rate });
    const ids = (await enqueue(9)).map(({ id }) => id);
    expect(await taken()).toEqual([0, 1]);
    await db.hf.cancel(ids.slice(2, 5));
    expect(await taken()).toEqual([]);
    await pass(60_100);
    const early = await claimStep(db, 'w');
    expect(numbers(early)).toEqual([5]);
    expect(Date.parse(early.jobs[0]?.cursorAt as string)).toBeLessThanOrEqual(early.clock + 1_000);
    // It comes again with the next token, and not with the next slot.
    expect(early.againMs).toBeLessThanOrEqual(60_001);
    expect(await taken()).toEqual([]);
    // Its key is its id.
    await db.hf.pause('inbox', { key: ids[6] as string });
    await pass(60_000);
    expect(await taken()).toEqual([7]);
    await db.hf.resume('inbox', { key: ids[6] as string });
    await pass(60_000);
    expect(await taken()).toEqual([6]);
  });

  test('lets nobody wait behind a line in which nobody is left', async () => {
    await limitStep(db, { rate });
    const ids = (await enqueue(50)).map(({ id }) => id);
    expect(await taken()).toEqual([0, 1]);
    await db.hf.cancel(ids.slice(2));
    await enqueue(2, step, 100);
    expect(await taken()).toEqual([]);
    expect((await waiting()).map(({ n, in_ms }) => [n, in_ms < 120_001])).toEqual([
      [100, true],
      [101, true],
    ]);
    await db.rows(`DELETE FROM holdfast.inbox WHERE status = 'pending'`);
    await pass(60_100);
    await enqueue(1, step, 200);
    expect(await taken()).toEqual([200]);
  });

  test('of a queue goes on beside slots of types whose worker is not there', async () => {
    await db.hf.configureQueue('inbox', { limit: { rate: { limit: 1, per: '1m', burst: 1 } } });
    const [steps, others] = [
      { ofType: null, versions: { step: 1 } },
      { ofType: null, versions: { other: 1 } },
    ];
    await enqueue(3, other, 100);
    await enqueue(2);
    expect(await taken(others)).toEqual([100]);
    expect(await taken(steps)).toEqual([]);
    await pass(60_500);
    expect(await taken(steps)).toEqual([0]);
    expect(await taken(others)).toEqual([]);
    await pass(60_000);
    // Whose slot has come comes first.
    expect(await taken(others)).toEqual([101]);
  });

  test('holds after a time in which nobody was there: slots that have passed are no right to start', async () => {
    await limitStep(db, { rate });
    await enqueue(20);
    expect(await taken()).toEqual([0, 1]);
    await pass(3_600_000);
    expect(await taken()).toEqual([2, 3]);
    expect(await taken()).toEqual([]);
    expect((await waiting()).every(({ in_ms, slot }) => in_ms < 0 && slot)).toBe(true);
    await pass(60_000);
    expect(await taken()).toEqual([4]);
    const again = await claimStep(db, 'w');
    expect(again.againMs).toBeGreaterThan(0);
    expect(again.againMs).toBeLessThanOrEqual(60_001);
  });

  test('counts a retry as a start, and gives it a slot of its own', async () => {
    await limitStep(db, { rate });
    await enqueue(2);
    const { jobs } = await claimStep(db, 'w');
    expect(jobs).toHaveLength(2);
    await db.rows(`UPDATE holdfast.inbox SET status = 'pending', claimed_by = NULL, claimed_at = NULL,
      lease_expires_at = NULL, available_at = now()`);
    expect(await taken()).toEqual([]);
    expect((await waiting()).map(({ slot }) => slot)).toEqual([true, true]);
  });

  test('leaves no slot behind with a job that failed, was snoozed, moved or is a dead letter', async () => {
    await limitStep(db, { rate: { ...rate, burst: 1 } });
    const ids = (await enqueue(7)).map(({ id }) => id);
    expect(await taken()).toEqual([0]);
    await pass(60_000_000);
    const held = [];
    for (let n = 1; n <= 3; n++) {
      held.push(...(await claimStep(db, 'w')).jobs.map(heldOf));
      await pass(60_000);
    }
    const [failed, snoozed, dead] = held as [Settled, Settled, Settled];
    const why = { error: 'no', summary: 'no' };
    await fail(db.engine, INBOX, 'w', [{ ...failed, delayMs: 1_000, ...why }]);
    await snooze(db.engine, INBOX, 'w', [{ ...snoozed, delayMs: 1_000 }]);
    await deadLetter(db.engine, INBOX, 'w', [{ ...dead, ...why }]);
    await db.hf.update(ids[4] as string, { delay: '1h' });
    const rows = await db.rows(`SELECT (payload ->> 'n')::int AS n FROM holdfast.inbox
      WHERE limit_slot IS NOT NULL ORDER BY 1`);
    expect(rows).toEqual([{ n: 5 }, { n: 6 }]);
  });

  test('keeps the slot of a job that is to run earlier: at the end of the line it would run later', async () => {
    await limitStep(db, { rate: { ...rate, burst: 1 } });
    const ids = (await enqueue(4)).map(({ id }) => id);
    await taken();
    const line = () =>
      db.rows(`SELECT id, available_at, limit_slot FROM holdfast.inbox ORDER BY id`);
    const before = await line();
    await db.hf.update(ids[2] as string, { runAt: new Date(), priority: 1 });
    await db.hf.update(ids[1] as string, { delay: 0 });
    expect(await line()).toEqual(before);
  });

  test('leaves what has a token and no handler where it is', async () => {
    await limitStep(db, { rate: { ...rate, burst: 5 } });
    await enqueue(8);
    const { throttled, waits } = await claimStep(db, 'w', { limit: 2 });
    expect([throttled, waits]).toEqual([0, true]);
    expect((await waiting()).some(({ slot }) => slot)).toBe(false);
    const next = await claimStep(db, 'w');
    expect(numbers(next)).toEqual([2, 3, 4]);
    expect(next.throttled).toBe(3);
  });

  test('and a concurrency hold together', async () => {
    await limitStep(db, { concurrency: 1, rate: { ...rate, burst: 3 } });
    await enqueue(3);
    const { jobs } = await claimStep(db, 'w');
    expect(jobs).toHaveLength(1);
    expect((await waiting()).some(({ slot }) => slot)).toBe(false);
    expect(await taken()).toEqual([]);
    await complete(db.engine, INBOX, 'w', jobs.map(heldOf));
    expect(await taken()).toEqual([1]);
  });

  test('and a concurrency read no more than may start, also of those whose slots have come', async () => {
    const quick = { limit: 1_000, perMs: 1_000, burst: 500 };
    await limitStep(db, { concurrency: 2, rate: quick });
    await enqueue(1_500);
    const first = await readsOfClaim();
    expect(first.jobs).toHaveLength(2);
    expect(first.reads).toBeLessThan(100);
    await complete(db.engine, INBOX, 'w', first.jobs.map(heldOf));
    // Now all wait in line, and then their slots have passed.
    await limitStep(db, { concurrency: 2, rate });
    await taken();
    await taken();
    const slots = (await waiting()).filter(({ slot }) => slot);
    expect(slots.length).toBeGreaterThan(1_400);
    await db.rows(`DELETE FROM holdfast.inbox WHERE status = 'processing'`);
    await pass(86_400_000 * 365);
    const second = await readsOfClaim('yesterday');
    expect(second.jobs).toHaveLength(2);
    expect(second.reads).toBeLessThan(100);
  });

  test('gives slots by the thousand, and each claim goes on where the last one ended', async () => {
    await limitStep(db, { rate });
    await enqueue(2_500);
    const [first, second, third] = [
      await claimStep(db, 'w'),
      await claimStep(db, 'w'),
      await claimStep(db, 'w'),
    ];
    expect([first, second, third].map(({ throttled }) => throttled)).toEqual([998, 1_000, 500]);
    expect([first, second, third].map(({ more }) => more)).toEqual([true, true, false]);
    expect(third.left).toBeNull();
    const places = await db.rows<{ n: number; position: number }>(
      `SELECT (payload ->> 'n')::int AS n, position::float8 AS position FROM holdfast.inbox`,
    );
    const at = (position: number | undefined) => places.find((one) => one.position === position)?.n;
    expect([first, second].map(({ left }) => at(left?.cursorPosition))).toEqual([999, 1_999]);
    // Nobody is passed over, and all stand in their order.
    expect((await waiting()).map(({ n }) => n)).toEqual(
      Array.from({ length: 2_498 }, (_, n) => n + 2),
    );
  });

  test('of a queue is for the types that have none of their own', async () => {
    await limitStep(db, { rate });
    await db.hf.configureQueue('inbox', { limit: { rate: { limit: 1, per: '10m', burst: 1 } } });
    await enqueue(4);
    await enqueue(3, other, 100);
    const others = { ofType: null, versions: { other: 1 } };
    expect(await taken(others)).toEqual([100]);
    expect(await taken()).toEqual([0, 1]);
    expect(await taken(others)).toEqual([]);
    await db.hf.configureQueue('inbox', { limit: { rate: { limit: 1, per: '10h', burst: 1 } } });
    const slots = new Map((await waiting()).map(({ n, in_ms }) => [n, in_ms]));
    expect(slots.get(2)).toBeLessThan(60_001);
    expect(slots.get(101)).toBeGreaterThan(18_000_000);
    expect((await db.hf.limits.list()).map(({ type, waiting: jobs }) => [type, jobs])).toEqual([
      [null, 2],
      ['step', 2],
    ]);
  });

  test('of one start a year gives slots as far as a time reaches', async () => {
    await limitStep(db, { rate: { limit: 1, perMs: 365 * 86_400_000, burst: 1 } });
    await enqueue(40);
    expect(await taken()).toEqual([0]);
    const slots = (await waiting()).filter(({ slot }) => slot);
    expect(slots.length).toBeGreaterThan(5);
    expect(slots.length).toBeLessThan(25);
  });
});

describe('a rate with keys', () => {
  const keyed = job<{ n: number; tenant: string }>('step', {
    limit: { rate: { limit: 10, per: '10m', burst: 1, key: ({ tenant }) => tenant } },
  });
  const rate = { limit: 10, perMs: 600_000, burst: 1 };

  test('holds for each key by itself', async () => {
    await limitStep(db, { rate }, true);
    const items = Array.from({ length: 12 }, (_, n) => keyed.item({ n, tenant: `t${n % 3}` }));
    await db.hf.enqueueMany(items);
    expect(await taken()).toEqual([0, 1, 2]);
    expect(await taken()).toEqual([]);
    await pass(60_100);
    expect(await taken()).toEqual([3, 4, 5]);
    // One that comes later waits for nobody but its own key.
    await db.hf.enqueue(keyed, { n: 20, tenant: 'new' });
    expect(await taken()).toEqual([20]);
  });

  test('passes over a key without tokens, however many of it are due', async () => {
    await limitStep(db, { rate }, true);
    await db.hf.enqueueMany(
      Array.from({ length: 1_200 }, (_, n) => keyed.item({ n, tenant: 'large' })),
    );
    while ((await claimStep(db, 'w')).more);
    await pass(1_300 * 60_000);
    expect(await taken()).toHaveLength(1);
    await db.hf.enqueue(keyed, { n: 5_000, tenant: 'small' });
    expect(await taken()).toEqual([5_000]);
  });

  test('lets nobody wait behind jobs of its key that were cancelled', async () => {
    await limitStep(db, { rate }, true);
    const items = Array.from({ length: 20 }, (_, n) => keyed.item({ n, tenant: `t${n % 2}` }));
    const ids = (await db.hf.enqueueMany(items)).map(({ id }) => id);
    expect(await taken()).toEqual([0, 1]);
    await db.hf.cancel(ids.filter((_, n) => n > 1 && n % 2 === 0));
    await pass(60_100);
    await db.hf.enqueue(keyed, { n: 100, tenant: 't0' });
    await db.hf.enqueue(keyed, { n: 101, tenant: 't1' });
    expect(await taken()).toEqual([3, 100]);
    expect((await waiting()).at(-1)?.n).toBe(101);
  });

  test('lets nobody without a key wait behind such jobs that were cancelled', async () => {
    await limitStep(db, { rate }, true);
    const ids = (await enqueue(20)).map(({ id }) => id);
    expect(await taken()).toEqual([0]);
    await db.hf.cancel(ids.slice(1));
    await pass(60_100);
    await enqueue(1, step, 100);
    expect(await taken()).toEqual([100]);
  });

  test('forgets keys that nobody waits for', async () => {
    await limitStep(db, { rate }, true);
    await db.hf.enqueue(keyed, { n: 1, tenant: 'a' });
    expect(await taken()).toEqual([1]);
    expect(await prune(db.engine, INBOX, pruneRates, 100)).toBe(0);
    await pass(600_000);
    expect(await prune(db.engine, INBOX, pruneRates, 100)).toBe(1);
  });

  test('is enqueued in SQL too', async () => {
    await limitStep(db, { rate }, true);
    for (const key of ['a', 'a', 'b'])
      await db.rows(`SELECT holdfast.inbox_enqueue('step', '{"n": 1}', limit_key => $1)`, [key]);
    expect(await taken()).toHaveLength(2);
    await expect(
      db.rows(`SELECT holdfast.inbox_enqueue('step', '{}', limit_key => '')`),
    ).rejects.toMatchObject({ code: 'HF002' });
  });
});

describe('changing a limit', () => {
  const rate = { limit: 10, perMs: 600_000, burst: 1 };

  test('moves those that wait at once, in proportion', async () => {
    await limitStep(db, { rate });
    await enqueue(5);
    await taken();
    const before = await waiting();
    await limitStep(db, { rate: { ...rate, limit: 100 } });
    const after = await waiting();
    expect(after.map(({ n, slot }) => [n, slot])).toEqual(before.map(({ n, slot }) => [n, slot]));
    const [first, latest] = [after[0]?.in_ms as number, after.at(-1)?.in_ms as number];
    expect(Math.abs(latest - first - 18_000)).toBeLessThan(100);
    await enqueue(1, step, 9);
    await taken();
    const [last] = (await waiting()).slice(-1);
    expect(last?.n).toBe(9);
    expect(last?.in_ms).toBeLessThanOrEqual(36_000);
  });

  test('to a rate of their own takes those that wait out of the line of their queue', async () => {
    await db.hf.configureQueue('inbox', { limit: { rate: { limit: 1, per: '1h', burst: 1 } } });
    await enqueue(5);
    expect(await taken({ ofType: null })).toEqual([0]);
    expect((await waiting()).every(({ slot }) => slot)).toBe(true);
    await limitStep(db, { rate: { limit: 1_000, perMs: 1_000, burst: 100 } });
    expect(await taken()).toEqual([1, 2, 3, 4]);
  });

  test.each(['the first', 'another'])(
    'to %s rate keeps nobody from registering while it waits for a job that somebody has locked',
    async (which) => {
      if (which === 'another') await limitStep(db, { rate });
      else
        await db.hf.configureQueue('inbox', { limit: { rate: { limit: 1, per: '1h', burst: 1 } } });
      await enqueue(5);
      await taken(which === 'another' ? {} : { ofType: null });
      const session = await db.pool.connect();
      try {
        await session.query(
          `BEGIN; SELECT FROM holdfast.inbox WHERE status = 'pending' FOR UPDATE`,
        );
        const changed = limitStep(db, { rate: { ...rate, limit: 100 } });
        await lockedOut(1, 'inbox_set_limit');
        await db.rows('SELECT FROM holdfast.fleet FOR UPDATE NOWAIT');
        // As an UPDATE does; only whoever drops the queue waits.
        await db.rows(`SELECT FROM holdfast.queues WHERE name = 'inbox' FOR NO KEY UPDATE NOWAIT`);
        await session.query('COMMIT');
        expect(await changed).toBe(true);
      } finally {
        session.release();
      }
    },
  );

  test('by two at once leaves what each of them set', async () => {
    const paced = (limit: number) => ({ rate: { limit, per: '10m', burst: 1 } });
    await db.hf.createQueue('pair', { perKey: 10, fair: true });
    const first = await db.pool.connect();
    try {
      // The first holds the row of the queue's limit, so the second waits between its reading and its writing.
      await db.hf.configureQueue('pair', { limit: paced(1) });
      await first.query(`BEGIN; SELECT FROM holdfast.limits WHERE queue = 'pair' FOR UPDATE`);
      const weights = db.hf.configureQueue('pair', { weights: { a: 2 }, limit: paced(2) });
      await lockedOut(1, 'pair_set_limit');
      await db.hf.configureQueue('pair', { perKey: 1 });
      await first.query('COMMIT');
      await weights;
    } finally {
      first.release();
    }
    expect(
      await db.rows(`SELECT per_key, weights FROM holdfast.queues WHERE name = 'pair'`),
    ).toEqual([{ per_key: 1, weights: { a: 2 } }]);
  });

  test('by two at once does not deadlock, though one of them sets more of the queue', async () => {
    const paced = (limit: number) => ({ rate: { limit, per: '10m', burst: 1 } });
    await db.hf.configureQueue('inbox', { limit: paced(10) });
    await enqueue(3);
    await taken({ ofType: null });
    const session = await db.pool.connect();
    try {
      await session.query(`BEGIN; SELECT FROM holdfast.inbox WHERE status = 'pending' FOR UPDATE`);
      const set = db.hf.limits.set({}, paced(100));
      await lockedOut(1, 'inbox_set_limit');
      const configured = db.hf.configureQueue('inbox', { ageAfter: '10m', limit: paced(50) });
      await lockedOut(2, 'inbox_set_limit');
      await session.query('COMMIT');
      await Promise.all([set, configured]);
    } finally {
      session.release();
    }
    const [limit] = await db.hf.limits.list();
    expect(limit).toMatchObject({ rate: { limit: 100 }, declared: { rate: { limit: 50 } } });
  });

  test.each(['another rate', 'no rate'])(
    'to %s does not deadlock with those that change jobs in the order of their ids',
    async (what) => {
      await limitStep(db, { rate });
      await enqueue(4);
      await taken();
      // Their slots are in another order than their ids.
      await db.rows(`UPDATE holdfast.inbox AS i SET available_at = s.at, limit_slot = s.at
        FROM (SELECT id, now() + row_number() OVER (ORDER BY id DESC) * interval '1h' AS at
          FROM holdfast.inbox WHERE status = 'pending') AS s WHERE i.id = s.id`);
      // So that Postgres reads so small a table as it lies.
      await db.rows('ANALYZE holdfast.inbox');
      const ids = await db.rows<{ id: string }>(
        `SELECT id FROM holdfast.inbox WHERE status = 'pending' ORDER BY id`,
      );
      const session = await db.pool.connect();
      try {
        await session.query(
          `BEGIN; SELECT FROM holdfast.inbox WHERE id = '${ids[1]?.id}' FOR UPDATE`,
        );
        const faster = { rate: { limit: 100, per: '10m', burst: 1 } };
        const set = db.hf.limits.set({ type: 'step' }, what === 'no rate' ? null : faster);
        await lockedOut(1, 'inbox_set_limit');
        const cancelled = db.hf.cancel(ids.map(({ id }) => id));
        await lockedOut(2, 'inbox_set_limit', 'inbox_archive');
        await session.query('COMMIT');
        await set;
        expect(await cancelled).toHaveLength(3);
      } finally {
        session.release();
      }
    },
  );

  test('to no rate lets all of them go, in their order', async () => {
    await limitStep(db, { concurrency: 100, rate });
    await enqueue(5);
    await taken();
    await limitStep(db, { concurrency: 100 });
    expect(await taken()).toEqual([1, 2, 3, 4]);
    expect(await db.rows('SELECT FROM holdfast.rates')).toEqual([]);
  });

  test('raises the version that ordinary claims must know', async () => {
    await enqueue(3);
    const known = await version();
    await limitStep(db, { concurrency: 1 });
    const stale = await claimByTime(db.engine, 'w', { limitsVersion: known });
    expect(stale.jobs).toEqual([]);
    const now = await version();
    expect(now).toBeGreaterThan(known);
    expect(await limitedTypes()).toEqual({
      ...{ version: now, types: ['step'], whole: false },
    });
    const fresh = await claimByTime(db.engine, 'w', { limitsVersion: now, versions: { other: 1 } });
    expect(fresh.jobs).toEqual([]);
    expect((await claimStep(db, 'w', { limitsVersion: known })).jobs).toEqual([]);
    expect((await claimStep(db, 'w', { limitsVersion: now })).jobs).toHaveLength(1);
    // What is declared again as it was changes nothing.
    expect(await limitStep(db, { concurrency: 1 })).toBe(false);
    expect(await version()).toBe(now);
  });
});

describe('an operator', () => {
  const listed = async (hf: Holdfast = db.hf) =>
    (await hf.limits.list()).map(({ type, concurrency, rate, overridden, declared }) => ({
      ...{ type, concurrency, overridden, declared: declared?.concurrency ?? null },
      rate: rate?.limit ?? null,
    }));

  test('sets what deploys do not undo, and resets it', async () => {
    await limitStep(db, { concurrency: 5 });
    await db.hf.limits.set({ type: 'step' }, { concurrency: 2 }, { actor: 'ann', reason: 'calm' });
    await limitStep(db, { concurrency: 6 });
    expect(await listed()).toEqual([
      { type: 'step', concurrency: 2, overridden: true, declared: 6, rate: null },
    ]);
    await enqueue(9);
    expect(await taken()).toHaveLength(2);
    await db.hf.limits.reset({ type: 'step' });
    expect(await listed()).toMatchObject([{ concurrency: 6, overridden: false }]);
    expect(await taken()).toHaveLength(4);
    await db.hf.limits.set({ type: 'step' }, null);
    expect(await listed()).toMatchObject([{ concurrency: null, declared: 6, overridden: true }]);
    await db.hf.limits.remove({ type: 'step' });
    expect(await listed()).toEqual([]);
    const acts = await db.rows(
      `SELECT act, actor, reason, changes FROM holdfast.audit ORDER BY id`,
    );
    expect(acts.map(({ act }) => act)).toEqual([
      ...['set_limit', 'reset_limit', 'set_limit', 'remove_limit'],
    ]);
    expect(acts[0]).toMatchObject({
      ...{ actor: 'ann', reason: 'calm' },
      changes: { type: 'step', from: { concurrency: 5 }, to: { concurrency: 2 } },
    });
  });

  test('limits what code does not, and takes it away', async () => {
    await db.hf.limits.set({}, { rate: { limit: 5, per: '1s' } });
    expect(await listed()).toMatchObject([{ type: null, rate: 5, declared: null }]);
    await db.hf.limits.reset({});
    expect(await listed()).toEqual([]);
    await expect(db.hf.limits.reset({ type: 'step' })).rejects.toMatchObject({
      code: 'LIMIT_UNKNOWN',
    });
    await expect(db.hf.limits.remove({ queue: 'nowhere' })).rejects.toThrow(/no limit|no queue/);
  });

  test('is refused a key, and goes with its queue', async () => {
    await expect(
      db.hf.limits.set({}, { rate: { limit: 5, per: '1s', key: () => '' } as never }),
    ).rejects.toThrow(/belongs to the definition of a job/);
    await db.hf.createQueue('lines', { ordering: 'key', limit: { concurrency: 2 } });
    await db.hf.createQueue('calm', { limit: { concurrency: 3 } });
    expect(await db.hf.limits.list({ queue: 'calm' })).toMatchObject([{ concurrency: 3 }]);
    await db.hf.configureQueue('calm', { ordering: 'key' });
    await expect(db.hf.limits.set({ queue: 'nowhere' }, { concurrency: 1 })).rejects.toThrow(
      /no queue "nowhere"/,
    );
    await db.hf.dropQueue('calm');
    await db.hf.dropQueue('lines');
    expect(await db.hf.limits.list()).toEqual([]);
  });
});

describe('explain', () => {
  /** A worker that is free and handles both types. */
  beforeEach(async () => {
    await db.rows('DELETE FROM holdfast.workers');
    await db.rows(`INSERT INTO holdfast.workers (id, handles, metadata)
      VALUES ('w', '{"inbox": {"step": 1, "other": 1}}', '{"concurrency": 10}')`);
  });

  test('says that no place is free, and how many there are', async () => {
    await limitStep(db, { concurrency: 2 });
    const [, , third] = await enqueue(3);
    await taken();
    expect(await db.hf.explain(third?.id as string)).toMatchObject({
      code: 'limit_reached',
      text: 'It waits for a free place: 2 of 2 places for "step" jobs are taken in the whole fleet.',
      fix: expect.stringContaining('holdfast limits set step --concurrency N'),
    });
  });

  test('says for which slot a job waits, and why', async () => {
    await limitStep(db, { rate: { limit: 60, perMs: 3_600_000, burst: 1 } });
    const [, second] = await enqueue(2);
    await taken();
    expect(await db.hf.explain(second?.id as string)).toMatchObject({
      code: 'rate_limited',
      text: expect.stringMatching(
        /^It waits for its slot at \S+ \d\d:\d\d:\d\dZ \(in (59 s|1 min)\): at most 60 "step" jobs start in 1 h, in the whole fleet\.$/,
      ),
    });
    await pass(3_600_000);
    await enqueue(1);
    await taken({ limit: 1 });
    const rows = await db.rows<{ id: string }>(
      `SELECT id FROM holdfast.inbox WHERE status = 'pending'`,
    );
    expect(await db.hf.explain(rows[0]?.id as string)).toMatchObject({ code: 'rate_limited' });
  });

  test('names the rate of its type where its queue has one too', async () => {
    await db.hf.configureQueue('inbox', { limit: { rate: { limit: 30, per: '1h' } } });
    onTestFinished(() => db.hf.configureQueue('inbox', { limit: null }));
    await limitStep(db, { rate: { limit: 60, perMs: 3_600_000, burst: 1 } });
    const [, second] = await enqueue(2);
    await taken();
    expect(await db.hf.explain(second?.id as string)).toMatchObject({
      code: 'rate_limited',
      text: expect.stringContaining('at most 60 "step" jobs start in 1 h'),
      fix: expect.stringContaining('holdfast limits set step --rate'),
    });
  });

  test('says of a job that has no slot yet that it has none, and when it starts at the earliest', async () => {
    await limitStep(db, { rate: { limit: 60, perMs: 3_600_000, burst: 1 } });
    await enqueue(3);
    await taken();
    // No worker has come by since.
    const [late] = await enqueue(1);
    expect(await db.hf.explain(late?.id as string)).toMatchObject({
      code: 'rate_limited',
      text: expect.stringMatching(
        /^It is due and has no slot yet: .* not before \S+ \d\d:\d\d:\d\dZ \(in (2 min 59 s|3 min)\): at most 60 "step" jobs start in 1 h/,
      ),
    });
  });

  test('does not speak of limits that do not hold the job up', async () => {
    await limitStep(db, { concurrency: 2 });
    const id = (await enqueue(1))[0]?.id as string;
    expect((await db.hf.explain(id)).code).toBe('waiting_its_turn');
  });
});
