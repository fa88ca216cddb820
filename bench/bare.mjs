// The statements alone, without the worker and without the library: what the layout of the tables
// allows. Only this file, and what measures Holdfast alone, reaches behind the public API.
import pg from 'pg';
import { claimTime } from '../packages/holdfast/build/claim/time/claim.js';
import { LAG_MS, Lines } from '../packages/holdfast/build/claim/time/lines.js';
import { uuidv7 } from '../packages/holdfast/build/job/uuid.js';
import { complete } from '../packages/holdfast/build/settle/complete.js';
import { bucketOf } from '../packages/holdfast/dist/index.js';
import { clock } from './clock.mjs';
import { INBOX } from './fixture.mjs';
import { median } from './statistics.mjs';

export const BARE_BATCH = 500;

const VERSIONS = { noop: 1 };

let claims = 0;
const request = (lines, limit) => ({
  workerId: 'bench',
  number: ++claims,
  // The row of the claim before: all of it is settled by now, or will not be.
  finished: [claims - 1],
  held: {},
  lines,
  limit,
  leaseMs: 90_000,
  lagMs: LAG_MS,
  ask: false,
});

async function claimNext(engine, lines, limit) {
  const from = clock();
  const taken = lines.take(performance.now(), limit, () => true, false);
  const answer = await claimTime(engine, INBOX, request(taken, limit));
  const took = clock() - from;
  lines.record(answer, limit, performance.now(), took);
  return { rows: answer.jobs, took };
}

/** Claim, complete, and again, on one connection; jobs per second. */
export async function bareDrain({ engine }, count) {
  const lines = new Lines(VERSIONS);
  const from = clock();
  for (let done = 0; done < count; ) {
    const { rows } = await claimNext(engine, lines, BARE_BATCH);
    if (rows.length === 0) continue;
    rows.sort((a, b) => (a.id < b.id ? -1 : 1));
    const moved = await complete(
      engine,
      INBOX,
      'bench',
      rows.map((row) => ({ id: row.id, generation: row.leaseGeneration })),
    );
    done += moved.length;
  }
  return (count / (clock() - from)) * 1000;
}

/** Milliseconds of one claim of 25 jobs at the backlog that lies there. */
export async function claimMs(fixture, claims) {
  const lines = new Lines(VERSIONS);
  const times = [];
  for (let n = 0; n < claims + 20; n++) {
    // The statement alone: the commit's wait for the disk is the same at any backlog and would hide
    // it.
    await fixture.client.query('BEGIN');
    const { rows, took } = await claimNext(fixture.engine, lines, 25);
    await fixture.client.query('COMMIT');
    if (rows.length !== 25) throw new Error(`a claim of 25 jobs returned ${rows.length}`);
    // The first claims meet a cold cache and unplanned statements.
    if (n >= 20) times.push(took);
  }
  return median(times);
}

/** The queue's table again, with its indexes and without its triggers, for the bare INSERT. */
export async function prepareBareInsert(admin) {
  const { rows } = await admin.query(
    `SELECT array_to_string(reloptions, ', ') AS options
     FROM pg_class WHERE oid = 'holdfast.inbox'::regclass`,
  );
  await admin.query('CREATE SCHEMA IF NOT EXISTS bench');
  await admin.query('DROP TABLE IF EXISTS bench.inbox');
  await admin.query(
    `CREATE TABLE bench.inbox (LIKE holdfast.inbox INCLUDING ALL) WITH (${rows[0].options})`,
  );
}

const INSERT_ONE = `INSERT INTO bench.inbox (id, type, partition_key, partition_bucket, payload, parked)
VALUES ($1, 'noop', $2, $3, $4, false)`;
const INSERT_MANY = `INSERT INTO bench.inbox (id, type, partition_key, partition_bucket, payload, parked)
SELECT id, 'noop', id::text, bucket, payload, false
FROM unnest($1::uuid[], $2::integer[], $3::jsonb[]) AS j(id, bucket, payload)`;

export async function bareProducer(url, connections) {
  const pool = new pg.Pool({ connectionString: url, max: connections });
  pool.on('error', () => {});
  const payload = '{"orderId":1}';
  return {
    async insert(size) {
      if (size === 1) {
        const id = uuidv7();
        const values = [id, id, bucketOf(id), payload];
        return pool.query({ name: 'bare_one', text: INSERT_ONE, values });
      }
      const ids = Array.from({ length: size }, () => uuidv7());
      const values = [ids, ids.map((id) => bucketOf(id)), ids.map(() => payload)];
      return pool.query({ name: 'bare_many', text: INSERT_MANY, values });
    },
    close: () => pool.end(),
  };
}
