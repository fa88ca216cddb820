// What an operator asks at a backlog of 5 million jobs, of which 100,000 are dead letters and 2,000 run.
// Each question is asked as the command line asks it, without the start of its process.
import pg from 'pg';
import { ratesBetween } from '../dist/cli/frame.js';
import { explainJob } from '../dist/inspect/explain.js';
import { listJobs } from '../dist/inspect/list.js';
import { overview } from '../dist/inspect/overview.js';
import { reading } from '../dist/inspect/reading.js';
import { emptyQueue, fillMore, INBOX, openGround } from './ground.mjs';
import { median } from './statistics.mjs';

const GOAL_MS = 300;
const ROUNDS = 9;

/** Every fiftieth is a dead letter, and the first of the queue run. */
async function wear(admin) {
  await admin.query(
    `UPDATE holdfast.inbox SET status = 'dead_letter', available_at = 'infinity', attempts = 5,
       last_error = 'Error: the mail server said no to ' || partition_key
     WHERE position % 50 = 0 AND position > (SELECT min(position) + 10000 FROM holdfast.inbox)`,
  );
  await admin.query(
    `UPDATE holdfast.inbox SET status = 'processing', claimed_by = 'w' || position % 4, claimed_at = now(),
       lease_expires_at = now() + interval '1 hour', lease_generation = 1, attempts = 1
     WHERE id IN (SELECT id FROM holdfast.inbox WHERE status = 'pending' ORDER BY id LIMIT 2000)`,
  );
  await admin.query(
    `INSERT INTO holdfast.workers (id, handles) SELECT 'w' || g, '{"inbox": {"noop": 1}}'
     FROM generate_series(0, 3) AS g ON CONFLICT DO NOTHING`,
  );
  await admin.query('ANALYZE holdfast.inbox');
}

export async function inspect({ url, quick, figure, say }) {
  const ground = await openGround(url);
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  const count = quick ? 500_000 : 5_000_000;
  const size = quick ? '500k' : '5M';
  for (const ordering of ['none', 'key']) {
    say(`loading ${count.toLocaleString('en')} jobs, ordering ${ordering} …`);
    await emptyQueue(ground.admin, ordering);
    await fillMore(ground.admin, count, { keys: 100_000 });
    if (ordering === 'none') await wear(ground.admin);
    const { rows } = await ground.admin.query(
      `SELECT id FROM holdfast.inbox WHERE status = 'pending' ORDER BY id OFFSET ${count / 10} LIMIT 1`,
    );
    const list = (filter, order) => (db) =>
      listJobs(db, INBOX, filter, { limit: 50, ...(order && { order }) });
    const lists = {
      'newest first': list({}),
      'dead letters': list({ statuses: ['dead_letter'] }),
      'dead letters by an error that none has': list({ statuses: ['dead_letter'], error: 'none' }),
      'what runs': list({ statuses: ['processing'] }, 'oldest'),
      'one key': list({ key: 'order:77' }),
      'a type that none has': list({ types: ['none'] }),
      'older than an hour': list({ olderMs: 3_600_000 }),
    };
    const ask = async (question) => {
      const times = [];
      for (let round = 0; round < ROUNDS; round++) {
        const from = performance.now();
        await reading(pool, question);
        times.push(performance.now() - from);
      }
      return median(times);
    };
    const name = (what) => `inspect.${what}_${size}${ordering === 'key' ? '_ordered' : ''}_ms`;
    const tell = (what, ms) => figure(name(what), ms.toFixed(0), `<= ${GOAL_MS}`, ms <= GOAL_MS);
    let before = null;
    const frame = async (db) => {
      const seen = await overview(db, 'holdfast');
      if (before) ratesBetween(before, seen);
      before = seen;
    };
    tell('status', await ask((db) => overview(db, 'holdfast')));
    tell('top', await ask(frame));
    tell('explain', await ask((db) => explainJob(db, 'holdfast', rows[0].id)));
    let worst = 0;
    for (const [what, question] of Object.entries(lists)) {
      const ms = await ask(question);
      say(`list page, ${what}: ${ms.toFixed(1)} ms`);
      worst = Math.max(worst, ms);
    }
    tell('list_page', worst);
  }
  await pool.end();
  await ground.close();
}
