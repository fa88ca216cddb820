/** A walk over the keys of a rate finds the oldest jobs of each key, as many as it has tokens, whatever stands between them. */
import { beforeEach, expect, test } from 'vitest';
import { numbers, type TimeOptions } from '../support/claiming.js';
import { testDatabase } from '../support/database.js';
import { claimStep, limitStep, register } from '../support/limited.js';
import { until } from '../support/until.js';

const db = testDatabase();
const rate = { limit: 1, perMs: 3_600_000, burst: 3 };

/** Keys with one job to a hundred, of every priority, some of them running, not due yet, too new or of a paused key. */
const FILL = `
INSERT INTO holdfast.inbox (type, version, payload, limit_key, partition_key, partition_bucket, priority, available_at, created_at,
  status, claimed_by, claimed_at, lease_expires_at, lease_generation, attempts)
SELECT 'step', CASE j.version WHEN 0 THEN 2 ELSE 1 END, jsonb_build_object('n', j.n), 'k' || j.k,
  CASE j.paused WHEN 0 THEN 'paused' END, 1, j.priority, now() + j.seconds * interval '1 s', now(),
  (CASE WHEN j.runs THEN 'processing' ELSE 'pending' END)::holdfast.inbox_status, CASE WHEN j.runs THEN 'v' END,
  CASE WHEN j.runs THEN now() END, CASE WHEN j.runs THEN now() + interval '1 hour' END, j.runs::integer, j.runs::integer
FROM (
  SELECT row_number() OVER () AS n, k, floor(random() * 4)::integer + 1 AS priority, CASE floor(random() * 3)::integer WHEN 0 THEN 3600 ELSE floor(random() * 90)::integer - 90 END AS seconds, floor(random() * 4)::integer = 0 AS runs,
    floor(random() * 10)::integer AS version, floor(random() * 10)::integer AS paused
  FROM generate_series(1, 60) AS k
  CROSS JOIN LATERAL generate_series(1, CASE WHEN k % 3 > 0 THEN 1 WHEN k % 2 > 0 THEN 4 ELSE floor(random() * 96)::integer + 5 END) AS each
) AS j`;

const EXPECTED = `
SELECT j.n FROM (
  SELECT (i.payload ->> 'n')::integer AS n, i.limit_key,
    row_number() OVER (PARTITION BY i.limit_key ORDER BY i.priority, i.available_at, i.position) AS nth
  FROM holdfast.inbox AS i
  WHERE i.status = 'pending' AND i.available_at <= now() AND i.version = 1 AND i.partition_key IS DISTINCT FROM 'paused'
) AS j
LEFT JOIN holdfast.rates AS r ON r.key = j.limit_key
WHERE j.nth <= coalesce(3 - ceil(date_part('epoch', r.started_tat - now()) / 3600), 3)
ORDER BY j.n`;

beforeEach(async () => {
  for (const table of ['limits', 'permits', 'rates', 'inbox', 'inbox_claims', 'workers'])
    await db.rows(`DELETE FROM holdfast.${table}`);
  await register(db, ['w', 'v']);
  await db.rows(`UPDATE holdfast.queues SET paused_keys = '{paused}'`);
  await limitStep(db, { rate }, true);
});

const sorted = (found: readonly number[]) => found.toSorted((a, b) => a - b);

test.each([
  ['at once', { keys: 1_000, limit: 1_000 }],
  ['a few keys at a time', { keys: 7, limit: 1_000 }],
  ['one key at a time', { keys: 1, limit: 1_000 }],
])('%s', async (_, options: TimeOptions & { keys: number; limit: number }) => {
  await db.rows(FILL);
  // Each fourth key has no token, and others have one, two or three.
  await db.rows(`INSERT INTO holdfast.rates (limit_id, key, started_tat, slot_tat)
    SELECT l.id, 'k' || k, now() + (k % 4) * interval '1 hour' - interval '1 min', now()
    FROM holdfast.limits AS l, generate_series(1, 50) AS k`);
  const expected = (await db.rows<{ n: number }>(EXPECTED)).map(({ n }) => n);
  expect(expected.length).toBeGreaterThan(20);
  const found: number[] = [];
  let afterKey = '';
  do {
    const claimed = await claimStep(db, 'w', {
      ...options,
      walks: [{ type: 'step', version: 1, afterKey }],
    });
    expect(claimed.jobs.length).toBe(claimed.found);
    found.push(...numbers(claimed));
    afterKey = claimed.walked.step ?? '';
  } while (afterKey !== '');
  expect(sorted(found)).toEqual(expected);
});

test('a job that commits while the claim walks is not taken, and nothing is paid for it', async () => {
  const real = 'holdfast.inbox_rate_keys';
  const [fn] = await db.rows<{ args: string; result: string }>(
    `SELECT pg_get_function_identity_arguments(oid) AS args, pg_get_function_result(oid) AS result
     FROM pg_proc WHERE oid = '${real}'::regproc`,
  );
  const types = (fn?.args ?? '').split(', ').filter((one) => !/^OUT /.test(one));
  const outs = (fn?.args ?? '').split(', ').filter((one) => /^OUT /.test(one));
  await db.rows(`ALTER FUNCTION ${real} RENAME TO inbox_rate_keys_real`);
  const gate = await db.pool.connect();
  try {
    // The walk begins when it has the lock: later than the claim's snapshot.
    await gate.query('SELECT pg_advisory_lock(4711)');
    await db.rows(`CREATE FUNCTION ${real}(${[...types, ...outs].join(', ')}) RETURNS SETOF record LANGUAGE plpgsql AS $$
      BEGIN
        PERFORM pg_advisory_xact_lock_shared(4711);
        RETURN QUERY SELECT * FROM holdfast.inbox_rate_keys_real(${types.map((_, n) => `$${n + 1}`).join(', ')});
      END $$`);
    await gate.query('BEGIN');
    await gate.query(
      `INSERT INTO holdfast.inbox (type, payload, limit_key) VALUES ('step', '{"n": 1}', 'k')`,
    );
    const walks = [{ type: 'step', version: 1, afterKey: '' }];
    const claiming = claimStep(db, 'w', { keys: 100, walks });
    await until('the walk waits', async () => {
      const [row] = await db.rows(
        "SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted",
      );
      return (row?.n as number) > 0;
    });
    await gate.query('COMMIT');
    await gate.query('SELECT pg_advisory_unlock(4711)');
    expect((await claiming).jobs).toEqual([]);
    expect(await db.rows('SELECT key FROM holdfast.rates')).toEqual([]);
    expect(numbers(await claimStep(db, 'w', { keys: 100, walks }))).toEqual([1]);
  } finally {
    gate.release(true);
    await db.rows(`DROP FUNCTION IF EXISTS ${real}`);
    await db.rows('ALTER FUNCTION holdfast.inbox_rate_keys_real RENAME TO inbox_rate_keys');
  }
});
