// The protocol in SQL beside TypeScript: what a claim and a completion cost, on one connection, from the front of a backlog, in
// turns. Both ways run the same statements; what is added is the work of the functions around them.
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { claimTime } from '../../packages/holdfast/build/claim/time/claim.js';
import { frontLines } from '../../packages/holdfast/build/claim/time/lines.js';
import { engineOptions } from '../../packages/holdfast/build/postgres/connect/pool.js';
import { engineExecutor } from '../../packages/holdfast/build/postgres/queryable.js';
import { complete } from '../../packages/holdfast/build/settle/complete.js';
import { measured, median, pairwise } from '../statistics.mjs';

const INBOX = { schema: 'holdfast', queue: 'inbox' };
const VERSIONS = { load: 1 };

/** As a worker in TypeScript sends it, but for its cursors: both read from the front. */
function byStatements(url) {
  const pool = new pg.Pool({ connectionString: url, options: engineOptions(), max: 1 });
  const db = engineExecutor(pool, { prepare: true });
  let number = 0;
  return {
    async claim(limit) {
      number += 1;
      const { jobs } = await claimTime(db, INBOX, {
        ...{ workerId: 'bench', leaseMs: 90_000, number, finished: [number - 1], limit },
        ...{ lines: frontLines(VERSIONS, limit + 32), lagMs: 250, ask: false },
      });
      return jobs.map(({ id, leaseGeneration: generation }) => ({ id, generation }));
    },
    complete: (jobs) => complete(db, INBOX, 'bench', jobs),
    end: () => pool.end(),
  };
}

async function byFunctions(url) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const call = (name, text, values) => client.query({ name, text, values });
  const { rows } = await client.query(`SELECT holdfast.worker_register(ARRAY['load']) AS id`);
  const [{ id }] = rows;
  const claim = `SELECT id, generation FROM holdfast.worker_claim($1, 'inbox', $2)`;
  const many = 'SELECT count(*) FROM holdfast.worker_complete_many($1, $2, $3)';
  return {
    claim: async (limit) => (await call('claim', claim, [id, limit])).rows,
    complete: (jobs) =>
      call('many', many, [id, jobs.map((job) => job.id), jobs.map((job) => job.generation)]),
    end: () => client.end(),
  };
}

const timed = async (into, work) => {
  const began = performance.now();
  const answer = await work();
  into.push(performance.now() - began);
  return answer;
};

/** Loops of claim and complete. Milliseconds of each call, and jobs per second. */
async function loops(worker, limit, forMs) {
  const [claims, completions] = [[], []];
  let jobs = 0;
  const began = performance.now();
  while (performance.now() - began < forMs) {
    const got = await timed(claims, () => worker.claim(limit));
    if (got.length !== limit) throw new Error(`it got ${got.length} jobs and not ${limit}`);
    await timed(completions, () => worker.complete(got));
    jobs += got.length;
  }
  const rate = (jobs / (performance.now() - began)) * 1_000;
  return { claim: median(claims), complete: median(completions), rate };
}

export async function run({ fresh, rounds, size, fact }) {
  const url = await fresh();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const forMs = size(3_000, 800);
  const ways = { typescript: byStatements(url), sql: await byFunctions(url) };
  try {
    for (const limit of [1, 10, 100]) {
      await client.query('TRUNCATE holdfast.inbox, holdfast.inbox_claims');
      await client.query(
        `INSERT INTO holdfast.inbox (type, payload, partition_key, partition_bucket, parked)
         SELECT 'load', '{"n": 1}', 'k' || n, n % 1024, false FROM generate_series(1, $1::int) AS n`,
        [size(300_000, 60_000)],
      );
      const found = { typescript: [], sql: [] };
      for (let n = 0; n < rounds(5, 2); n++)
        for (const [way, worker] of Object.entries(ways))
          found[way].push(await loops(worker, limit, limit < 100 ? forMs : forMs / 4));
      const of = (way, key) => found[way].map((one) => one[key]);
      for (const way of Object.keys(ways)) {
        fact(`shapes.protocol_${way}_claim_of_${limit}_ms`, measured(of(way, 'claim')));
        fact(`shapes.protocol_${way}_complete_of_${limit}_ms`, measured(of(way, 'complete')));
        fact(`shapes.protocol_${way}_of_${limit}_per_s`, measured(of(way, 'rate')));
      }
      const times = pairwise(of('sql', 'claim'), of('typescript', 'claim'));
      fact(`shapes.protocol_claim_of_${limit}_times`, times.toFixed(2));
    }
  } finally {
    for (const worker of Object.values(ways)) await worker.end();
    await client.end();
  }
}

/** `node bench/shapes/protocol.mjs [--quick]`: by itself, on a Postgres of its own. */
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { startEmbedded } = await import('../../packages/embedded/dist/index.js');
  const { holdfast } = await import('../../packages/holdfast/dist/index.js');
  const server = await startEmbedded({ throwaway: true });
  const quick = process.argv.includes('--quick');
  const size = (full, small) => (quick ? small : full);
  const fresh = async () => {
    const hf = holdfast({ connectionString: server.url });
    await hf.migrate();
    await hf.close();
    return server.url;
  };
  await run({ fresh, size, rounds: size, fact: (name, value) => console.log(name, value) });
  await server.stop();
}
