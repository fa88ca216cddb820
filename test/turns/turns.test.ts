/** What a claim takes where keys take turns: windows of keys and groups, turns, and whom it passes over. */
import { beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { bucketOf } from '../../packages/holdfast/src/job/key.js';
import { recover } from '../../packages/holdfast/src/maintenance/recover.js';
import { configure } from '../../packages/holdfast/src/operate/queue.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { fail } from '../../packages/holdfast/src/settle/fail.js';
import { release } from '../../packages/holdfast/src/settle/release.js';
import { claimSuspected, heldOf, numbers } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { inWalkOrder } from '../support/ordered.js';
import { claimInTurns, type TurnsOptions, walkInTurns } from '../support/turns.js';

const db = testDatabase();
const step = job<{ n: number }>('step', { maxAttempts: 100 });
const ERROR = { error: 'Error: no paper', summary: 'no paper' };

interface Policy {
  readonly perKey?: number;
  readonly perGroup?: number;
  readonly fair?: boolean;
  readonly weights?: Readonly<Record<string, number>>;
}

/** An empty queue with this policy. */
async function queueWith(policy: Policy): Promise<void> {
  await db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_claims');
  await configure(db.plain, INBOX, { ordering: 'none', ...policy });
}

interface Line {
  readonly key: string;
  readonly jobs?: number;
  readonly group?: string;
}

const enqueue = (...lines: readonly Line[]) =>
  db.hf.enqueueMany(
    lines.flatMap(({ key, jobs = 1, group }) =>
      Array.from({ length: jobs }, (_, n) =>
        step.item({ n }, { partitionKey: key, ...(group !== undefined && { group }) }),
      ),
    ),
  );

const claim = (workerId: string, options?: TurnsOptions) =>
  claimInTurns(db.engine, workerId, options);
const keysOf = ({ jobs }: { readonly jobs: readonly { readonly partitionKey: string }[] }) =>
  jobs.map(({ partitionKey }) => partitionKey);
const settle = (workerId: string, jobs: Parameters<typeof heldOf>[0][]) =>
  complete(db.engine, INBOX, workerId, jobs.map(heldOf));

describe('perKey', () => {
  beforeEach(() => queueWith({ perKey: 2 }));

  test('is the most that all workers together hold of a key, in the order in which they came', async () => {
    await enqueue({ key: 'a', jobs: 5 });
    expect(numbers(await claim('w1', { limit: 1 }))).toEqual([0]);
    const second = await claim('w2');
    expect(numbers(second)).toEqual([1]);
    expect((await claim('w3')).jobs).toEqual([]);
    // One ends on another worker than the one that asks.
    await settle('w2', second.jobs);
    expect(numbers(await claim('w3'))).toEqual([2]);
    expect((await claim('w1')).jobs).toEqual([]);
  });

  test('counts what was released or failed no more, and what came back through another worker once', async () => {
    await enqueue({ key: 'a', jobs: 4 });
    const { jobs } = await claim('w');
    await release(db.engine, INBOX, 'w', jobs.map(heldOf));
    const again = await claim('w');
    expect(numbers(again)).toEqual([0, 1]);
    await fail(db.engine, INBOX, 'w', [{ ...heldOf(again.jobs[0]!), ...ERROR, delayMs: 60_000 }]);
    // The retry waits behind what is due, and not before it.
    expect(numbers(await claim('other'))).toEqual([2]);
    expect((await claim('other')).jobs).toEqual([]);
  });

  test('counts a lease that ran out until its job is taken over, and then once', async () => {
    await enqueue({ key: 'a', jobs: 4 });
    const { jobs } = await claim('frozen');
    await db.rows(
      `UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 second' WHERE id = $1`,
      [jobs[0]!.id],
    );
    // Its owner may wake up and renew it, so nothing else is started; and the key is full.
    expect((await claim('w')).jobs).toEqual([]);
    await settle('frozen', [jobs[1]!]);
    expect(numbers(await claim('w'))).toEqual([0]);
    expect(numbers(await claim('w'))).toEqual([2]);
    expect((await claim('w')).jobs).toEqual([]);
  });

  test('of a dead worker comes back with its jobs, and they count once although two claims name them', async () => {
    await enqueue({ key: 'a', jobs: 5 });
    expect(numbers(await claim('dead'))).toEqual([0, 1]);
    expect((await claim('w')).jobs).toEqual([]);
    await db.rows(`INSERT INTO holdfast.workers (id, status) VALUES ('dead', 'dead')`);
    await recover(db.engine, INBOX, { limit: 10, recoverer: 'w' });
    const again = await claim('w');
    expect(numbers(again)).toEqual([0, 1]);
    expect((await claim('other')).jobs).toEqual([]);
    await settle('w', [again.jobs[0]!]);
    expect(numbers(await claim('other'))).toEqual([2]);
    expect((await claim('other')).jobs).toEqual([]);
  });

  test('that is full holds up the suspects of its key, and no others', async () => {
    await enqueue({ key: 'a', jobs: 3 });
    await claim('w');
    await enqueue({ key: 'b' });
    // The first crash is that of the key that is full.
    await db.rows(`UPDATE holdfast.inbox SET crashes = CASE partition_key WHEN 'a' THEN 4 ELSE 2 END,
        history = jsonb_build_array(jsonb_build_object('at', now()
          - CASE partition_key WHEN 'a' THEN interval '9 s' ELSE interval '1 s' END))
      WHERE status = 'pending'`);
    const suspects = await claimSuspected(db.engine, 'w');
    expect([keysOf(suspects), suspects.alone]).toEqual([['b'], false]);
  });

  test('that is lowered lets nothing start until fewer run; raised, it counts at once', async () => {
    await enqueue({ key: 'a', jobs: 6 });
    const { jobs } = await claim('w');
    await db.hf.configureQueue('inbox', { perKey: 1 });
    await settle('w', [jobs[0]!]);
    expect((await claim('w')).jobs).toEqual([]);
    await db.hf.configureQueue('inbox', { perKey: 3 });
    expect(numbers(await claim('w'))).toEqual([2, 3]);
  });

  test('holds for jobs that crashed their workers and run apart', async () => {
    await enqueue({ key: 'a', jobs: 4 });
    await db.rows(
      'UPDATE holdfast.inbox SET crashes = 2 WHERE position > (SELECT min(position) FROM holdfast.inbox)',
    );
    expect(numbers(await claim('w'))).toEqual([0]);
    expect((await claimSuspected(db.engine, 'w')).jobs).toHaveLength(1);
    expect((await claimSuspected(db.engine, 'w')).jobs).toEqual([]);
    expect((await claim('w')).jobs).toEqual([]);
  });

  test('finds what is due behind any number of jobs of its key that are not', async () => {
    await db.rows(
      `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, available_at, parked)
       SELECT 'step', 'a', $1, '{"n": 1}', now() + interval '1 hour', false FROM generate_series(1, 7000)`,
      [bucketOf('a')],
    );
    await enqueue({ key: 'a', jobs: 1 });
    expect(numbers(await claim('w'))).toEqual([0]);
  });

  test('says when a job of a key that has room is due', async () => {
    await enqueue({ key: 'a' });
    await db.hf.enqueue(step, { n: 1 }, { partitionKey: 'a', delay: 2_000 });
    const bucket = bucketOf('a');
    const first = await claim('w');
    expect(first.due).toEqual([{ bucket, inMs: expect.any(Number) }]);
    expect(first.jobs).toMatchObject([{ more: true }]);
    const second = await claim('w');
    expect(second.due).toEqual([{ bucket, inMs: expect.any(Number) }]);
    expect(second.due[0]!.inMs).toBeLessThanOrEqual(2_000);
  });

  test('holds where the first job of a full key is ready, and a claim wants no more', async () => {
    await queueWith({ perKey: 2, fair: true });
    await enqueue({ key: 'a', jobs: 3 });
    expect(numbers(await claim('w', { again: true }))).toEqual([0, 1]);
    await db.rows(
      `UPDATE holdfast.inbox SET available_at = now() - interval '1 hour' WHERE status = 'pending'`,
    );
    expect((await claim('w', { limit: 1 })).jobs).toEqual([]);
  });

  test('holds where a claim finds as many as it wants', async () => {
    await enqueue({ key: 'a', jobs: 4 }, { key: 'b', jobs: 4 });
    const first = await claim('w', { limit: 1 });
    const [key] = keysOf(first);
    // The claim wants 3: two of the other key, and one of this.
    const second = await claim('w', { limit: 3 });
    expect(keysOf(second).filter((one) => one === key)).toHaveLength(1);
    expect(second.jobs).toHaveLength(3);
    expect(second.jobs.every(({ more }) => more)).toBe(true);
    expect((await claim('w', { limit: 1 })).jobs).toEqual([]);
  });

  test('is not claimed from a bucket that somebody claims from just now', async () => {
    await enqueue({ key: 'a' }, { key: 'b' });
    const client = await db.pool.connect();
    try {
      await client.query('BEGIN');
      await client.query(
        `SELECT pg_advisory_xact_lock('holdfast.inbox'::regclass::oid::integer, $1 + 1)`,
        [bucketOf('a')],
      );
      const claimed = await claim('w');
      expect(keysOf(claimed)).toEqual(['b']);
      expect(claimed.busy).toEqual([bucketOf('a')]);
      await client.query('COMMIT');
    } finally {
      client.release();
    }
    expect(keysOf(await claim('w'))).toEqual(['a']);
  });

  test('passes over a row that somebody has locked, and reports it as wanted', async () => {
    await enqueue({ key: 'a' });
    const client = await db.pool.connect();
    try {
      await client.query('BEGIN; SELECT FROM holdfast.inbox FOR UPDATE');
      expect(await claim('w')).toMatchObject({ jobs: [], wanted: 1, missed: false });
      await client.query('COMMIT');
    } finally {
      client.release();
    }
  });

  test('needs READ COMMITTED: elsewhere a claim could not see what others hold', async () => {
    const client = await db.pool.connect();
    try {
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      await expect(
        client.query(
          `SELECT FROM holdfast.inbox_turns(1, '{step}', '{}', '{0}', '{""}', '{1024}', false, 0, 10)`,
        ),
      ).rejects.toMatchObject({ code: '0A000', message: expect.stringMatching(/READ COMMITTED/) });
    } finally {
      client.release(true);
    }
  });
});

describe('fair', () => {
  test('gives every key a turn before any has a second one', async () => {
    await queueWith({ fair: true });
    const keys = inWalkOrder(['a', 'b', 'c', 'd', 'e']);
    await enqueue(...keys.map((key) => ({ key, jobs: 10 })));
    const claims = await walkInTurns(db.engine, 'w', { limit: 2 });
    expect(claims.flatMap(keysOf)).toEqual(keys);
    expect(claims.flatMap(numbers)).toEqual(keys.map(() => 0));
  });

  test('goes round again while there is room', async () => {
    await queueWith({ fair: true });
    const keys = inWalkOrder(['a', 'b', 'c']);
    await enqueue({ key: 'a', jobs: 50 }, { key: 'b', jobs: 2 }, { key: 'c', jobs: 50 });
    const { jobs, stop } = await claim('w', { limit: 12, again: true });
    expect(stop).toBeNull();
    expect(keysOf({ jobs }).slice(0, 6)).toEqual([...keys, ...keys]);
    expect(jobs).toHaveLength(12);
    expect(keysOf({ jobs }).filter((key) => key === 'b')).toHaveLength(2);
  });

  test('gives a key so many jobs a turn as its weight says, also when a claim ends in the middle of it', async () => {
    await queueWith({ fair: true, weights: { b: 3 } });
    const keys = inWalkOrder(['a', 'b', 'c']);
    await enqueue(...keys.map((key) => ({ key, jobs: 20 })));
    const turn = keys.flatMap((key) => (key === 'b' ? [key, key, key] : [key]));
    for (const limit of [1, 2, 3, 4])
      expect((await walkInTurns(db.engine, 'w', { limit })).flatMap(keysOf)).toEqual(turn);
    // Two rounds and a part, of 5 jobs each.
    const { jobs } = await claim('w', { limit: 12, again: true });
    expect(keysOf({ jobs }).slice(0, 10)).toEqual([...turn, ...turn]);
  });

  test('and perKey together: a turn is no larger than the room', async () => {
    await queueWith({ fair: true, perKey: 2, weights: { a: 5 } });
    await enqueue({ key: 'a', jobs: 9 }, { key: 'b', jobs: 9 });
    const { jobs } = await claim('w', { again: true });
    expect(keysOf({ jobs }).toSorted()).toEqual(['a', 'a', 'b', 'b']);
  });
});

describe('group', () => {
  test('that is full says that more wait, also of other keys', async () => {
    await queueWith({ perGroup: 2, fair: true });
    await enqueue(...['a', 'b', 'c'].map((key) => ({ key, group: 'g' })));
    const { jobs } = await claim('w');
    expect(jobs.map(({ more }) => more)).toEqual([true, true]);
    await settle('w', jobs);
    expect((await claim('w')).jobs.map(({ more }) => more)).toEqual([false]);
  });

  test('has all of its keys in its own bucket, whoever writes the job', async () => {
    await queueWith({ perGroup: 2 });
    await enqueue({ key: 'a', group: 'g' });
    await db.hf.enqueue(step, { n: 0 }, { partitionKey: 'b', group: 'g', idempotencyKey: 'once' });
    await db.rows(
      `SELECT holdfast.inbox_enqueue('step', '{"n": 1}', partition_key => 'c', group_key => 'g')`,
    );
    await db.rows(
      `INSERT INTO holdfast.inbox (type, partition_key, group_key, payload) VALUES ('step', 'd', 'g', '{"n": 2}')`,
    );
    expect(
      await db.rows(
        'SELECT DISTINCT partition_bucket AS bucket FROM holdfast.inbox WHERE group_key = $1',
        ['g'],
      ),
    ).toEqual([{ bucket: bucketOf('g') }]);
    expect((await claim('w')).jobs).toHaveLength(2);
    expect((await claim('other')).jobs).toEqual([]);
  });

  test('is limited beside its keys: 2 per user, 3 per tenant', async () => {
    await queueWith({ perKey: 2, perGroup: 3 });
    await enqueue(
      { key: 'ann', group: 'one', jobs: 5 },
      { key: 'bob', group: 'one', jobs: 5 },
      // Another user of the same name.
      { key: 'ann', group: 'two', jobs: 5 },
      { key: 'zoe', jobs: 5 },
    );
    const held = async () =>
      Object.fromEntries(
        (
          await db.rows<{ name: string; n: number }>(
            `SELECT concat_ws('/', group_key, partition_key) AS name, count(*)::int AS n
             FROM holdfast.inbox WHERE status = 'processing' GROUP BY 1`,
          )
        ).map(({ name, n }) => [name, n]),
      );
    const { jobs } = await claim('w');
    expect(jobs).toHaveLength(7);
    expect(await held()).toEqual({ 'one/ann': 2, 'one/bob': 1, 'two/ann': 2, zoe: 2 });
    await settle(
      'w',
      jobs.filter(
        ({ payload, partitionKey }) => partitionKey === 'ann' && JSON.parse(payload).n === 0,
      ),
    );
    expect((await claim('other')).jobs).toHaveLength(2);
    expect((await claim('other')).jobs).toEqual([]);
  });

  test('that is full is passed in one step, however many keys it has', async () => {
    await queueWith({ perGroup: 1, fair: true });
    await enqueue(...Array.from({ length: 200 }, (_, n) => ({ key: `user:${n}`, group: 'g' })));
    expect((await claim('w', { limit: 1 })).jobs).toHaveLength(1);
    const claimed = await claim('w', { maxKeys: 5 });
    expect(claimed).toMatchObject({ jobs: [], stop: null });
  });

  test('is refused by a queue that has none, and nothing is written', async () => {
    await queueWith({});
    const refusal = {
      code: 'HF002',
      message: expect.stringMatching(/has no groups: nothing was enqueued/),
    };
    await expect(enqueue({ key: 'a', group: 'g' })).rejects.toMatchObject(refusal);
    await expect(enqueue({ key: 'a' }, { key: 'b', group: 'g' })).rejects.toMatchObject(refusal);
    await expect(
      db.rows(`SELECT holdfast.inbox_enqueue('step', '{}', group_key => 'g')`),
    ).rejects.toMatchObject(refusal);
    expect(await db.rows('SELECT FROM holdfast.inbox')).toEqual([]);
    for (const group of ['', 'x'.repeat(513), 7 as never])
      await expect(enqueue({ key: 'a', group })).rejects.toMatchObject({ code: 'KEY_INVALID' });
  });
});
