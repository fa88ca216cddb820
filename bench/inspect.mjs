// What an operator asks at a backlog of 5 million jobs: 750,000 of them are of a type that nobody handles and stand
// in front, 200,000 are dead letters, 2,000 run, 100 of these beyond their lease. Each question is asked as the
// command line asks it, without the start of its process; the counts must be true as well.
import pg from 'pg';
import { diagnose } from '../packages/holdfast/build/api/doctor/doctor.js';
import { ratesBetween } from '../packages/holdfast/build/cli/print/frame.js';
import { explainJob } from '../packages/holdfast/build/inspect/explain/explain.js';
import { listJobs } from '../packages/holdfast/build/inspect/job/list.js';
import { overview } from '../packages/holdfast/build/inspect/queue/overview.js';
import { reading } from '../packages/holdfast/build/inspect/reading/reading.js';
import { wait } from './clock.mjs';
import { emptyQueue, INBOX, openFixture } from './fixture.mjs';
import { median } from './statistics.mjs';

const GOAL_MS = 300;
const ROUNDS = 9;
const KEYS = 100_000;
const RUNNING = 2_000;
const EXPIRED = 100;
const WORKERS = 4;

export async function plant(admin, count) {
  const others = count * 0.15;
  await admin.query('TRUNCATE holdfast.inbox_claims');
  await admin.query('DROP TABLE IF EXISTS key_bucket');
  await admin.query(
    `CREATE TEMP TABLE key_bucket AS
     SELECT g, 'order:' || g AS key, holdfast.bucket_of('order:' || g) AS bucket
     FROM generate_series(0, ${KEYS - 1}) AS g`,
  );
  await admin.query('ANALYZE key_bucket');
  await admin.query(
    `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, parked, status, available_at,
       attempts, last_error)
     SELECT CASE WHEN n <= ${others} THEN 'other' ELSE 'noop' END, k.key, k.bucket,
       jsonb_build_object('orderId', n), d.dead,
       CASE WHEN d.dead THEN 'dead_letter' ELSE 'pending' END::holdfast.inbox_status,
       CASE WHEN d.dead THEN 'infinity' ELSE now() - ($1::int - n) * interval '1 millisecond' END,
       CASE WHEN d.dead THEN 5 ELSE 0 END,
       CASE WHEN d.dead THEN 'Error: the mail server said no to ' || k.key END
     FROM generate_series(1, $1::int) AS n
     JOIN key_bucket AS k ON k.g = n % ${KEYS}
     CROSS JOIN LATERAL (SELECT n % 25 = 0 AS dead) AS d
     ORDER BY n`,
    [count],
  );
  await admin.query(
    `INSERT INTO holdfast.workers (id, handles, metadata)
     SELECT 'w' || g, '{"inbox": {"noop": 1}}', '{"concurrency": 500, "ttlMs": 3600000}'
     FROM generate_series(0, ${WORKERS - 1}) AS g ON CONFLICT DO NOTHING`,
  );
  await admin.query(
    `WITH taken AS (
       UPDATE holdfast.inbox AS i SET status = 'processing', claimed_by = 'w' || t.nth % ${WORKERS},
         claimed_at = now(), lease_generation = 1, attempts = 1,
         lease_expires_at = now() + CASE WHEN t.nth <= ${EXPIRED} THEN '-1 s' ELSE '1 hour' END::interval
       FROM (
         SELECT id, row_number() OVER (ORDER BY id) AS nth FROM (
           SELECT id FROM holdfast.inbox WHERE status = 'pending' ORDER BY id OFFSET ${others * 0.96}
           LIMIT ${RUNNING}) AS front
       ) AS t
       WHERE i.id = t.id
       RETURNING i.id, i.claimed_by)
     INSERT INTO holdfast.inbox_claims (worker_id, number, jobs)
     SELECT claimed_by, 1, array_agg(id) FROM taken GROUP BY claimed_by`,
  );
  // As in a queue that has been there for a while: autovacuum would do it within the minute.
  await admin.query('VACUUM (ANALYZE) holdfast.inbox');
}

/** What is counted beside what is there. */
function isTrue(seen, count) {
  const [{ counts }] = seen.queues;
  const dead = count / 25;
  const near = (value, wanted) => Math.abs(value - wanted) <= wanted * 0.05;
  const held = seen.workers.every((one) => one.held === RUNNING / WORKERS);
  const letters = counts.deadLetterApproximate
    ? near(counts.deadLetter, dead)
    : counts.deadLetter === dead;
  const exact = counts.processing === RUNNING && counts.expired === EXPIRED && held;
  return exact && letters && near(counts.pending, count - dead - RUNNING);
}

const lists = (key) => ({
  'newest first': [{}],
  'dead letters': [{ statuses: ['dead_letter'] }],
  'dead letters by an error that none has': [{ statuses: ['dead_letter'], error: 'none' }],
  'what runs': [{ statuses: ['processing'] }, { order: 'oldest', byClaims: true }],
  'one key': [{ key }],
  'a type that none has': [{ types: ['none'] }],
  'older than an hour': [{ olderMs: 3_600_000 }],
});

/** How long sessions of this database have been busy with statements. */
async function activeMs(admin) {
  await admin.query('SELECT pg_stat_force_next_flush()');
  const { rows } = await admin.query(
    'SELECT active_time FROM pg_stat_database WHERE datname = current_database()',
  );
  return rows[0].active_time;
}

/** The answer when it is the same twice. */
async function settled(ask) {
  for (let last = await ask(); ; ) {
    await wait(250);
    const next = await ask();
    if (next - last < 1) return next;
    last = next;
  }
}

export async function inspect({ url, quick, figure, say }) {
  const fixture = await openFixture(url);
  const count = quick ? 500_000 : 5_000_000;
  const size = quick ? '500k' : '5M';
  for (const ordering of ['none', 'key']) {
    say(`loading ${count.toLocaleString('en')} jobs, ordering ${ordering} …`);
    await emptyQueue(fixture.admin, ordering);
    await plant(fixture.admin, count);
    const { rows } = await fixture.admin.query(
      `SELECT id FROM holdfast.inbox WHERE status = 'pending' AND type = 'noop'
       ORDER BY id OFFSET ${count / 10} LIMIT 1`,
    );
    /** Milliseconds of the server for one question; beside it, until the answer was there. */
    const timed = async (ask) => {
      const pool = new pg.Pool({ connectionString: url, max: 3 });
      const before = await activeMs(fixture.admin);
      const times = [];
      for (let round = 0; round < ROUNDS; round++) {
        const from = performance.now();
        await ask(pool);
        times.push(performance.now() - from);
      }
      // A session that ends reports what it has not reported yet.
      await pool.end();
      const active = await settled(() => activeMs(fixture.admin));
      const serverMs = (active - before) / ROUNDS;
      say(
        `${serverMs.toFixed(1)} ms of the server; ${median(times).toFixed(1)} ms until the answer`,
      );
      return serverMs;
    };
    const ask = (question) => timed((pool) => reading(pool, question));
    const name = (what) => `inspect.${what}_${size}${ordering === 'key' ? '_ordered' : ''}`;
    const tell = (what, ms) =>
      figure(`${name(what)}_ms`, ms.toFixed(0), `<= ${GOAL_MS}`, ms <= GOAL_MS);
    let before = null;
    const frame = async (db) => {
      const seen = await overview(db, 'holdfast');
      if (before) ratesBetween(before, seen);
      before = seen;
    };
    tell('status', await ask((db) => overview(db, 'holdfast', { withRates: true })));
    tell('top', await ask(frame));
    const [{ counts }] = before.queues;
    const { pending, processing, expired, deadLetter, deadLetterApproximate } = counts;
    const told = { pending, processing, expired, deadLetter, deadLetterApproximate };
    figure(name('counts'), JSON.stringify(told), 'true', isTrue(before, count));
    tell('explain', await ask((db) => explainJob(db, 'holdfast', rows[0].id)));
    tell('doctor', await timed((pool) => diagnose({ pool, schema: 'holdfast' })));
    let worst = 0;
    for (const [what, [filter, how = {}]] of Object.entries(lists('order:77'))) {
      const ms = await ask((db) => listJobs(db, INBOX, filter, { limit: 50, ...how }));
      say(`list page, ${what}: ${ms.toFixed(1)} ms`);
      worst = Math.max(worst, ms);
    }
    tell('list_page', worst);
  }
  await fixture.close();
}
