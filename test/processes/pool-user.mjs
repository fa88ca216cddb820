/**
 * A process with a pool of its own, which has an error listener, as the manual of pg wants it. It works
 * until it is told to stop, and never listens to a single client: a connection that breaks fails the call
 * in which it was used, and nothing else. `mode` says who takes clients from the pool:
 *
 * - `enqueue`: Holdfast, for single jobs and for bulks that need a transaction;
 * - `transaction`: this process, which enqueues in transactions of its own;
 * - `handler`: a worker, for `ctx.transaction`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { holdfast, job } from '../../packages/holdfast/dist/index.js';

const { url, mode, options = {} } = JSON.parse(process.argv[2]);
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const noop = job('noop', { maxAttempts: 1_000, retry: { base: '20ms', cap: '20ms' } });
const CALLERS = 12;

// Fewer clients than callers: most are handed on in the read that brought the last answer.
const pool = new pg.Pool({ connectionString: url, max: 6 });
pool.on('error', () => undefined);
// Some clients are older than Holdfast.
await Promise.all([1, 2, 3].map(() => pool.query('SELECT')));
const hf = holdfast({ connectionString: url, pool, logger: quiet });

let stopping = false;
let turns = 0;
process.on('message', () => {
  stopping = true;
});
process.on('disconnect', () => process.exit(0));

async function inTransaction(work) {
  const client = await pool.connect();
  let failed;
  try {
    await client.query('BEGIN');
    const value = await work(client);
    await client.query('COMMIT');
    return value;
  } catch (error) {
    failed = error;
    throw error;
  } finally {
    client.release(failed);
  }
}

const calls = {
  enqueue(turn) {
    if (turn % 2 === 0) return hf.enqueue(noop, {});
    const keys = [1, 2, 3].map((place) => `${process.pid}:${turn}:${place}`);
    return hf.enqueueMany(keys.map((idempotencyKey) => noop.item({}, { idempotencyKey })));
  },
  transaction: () => inTransaction((tx) => hf.enqueue(noop, {}, { tx })),
  handler: () => hf.enqueue(noop, {}),
};

async function callAgainAndAgain() {
  while (!stopping) {
    try {
      const jobs = [await calls[mode](++turns)].flat();
      process.send({ kind: 'accepted', keys: jobs.map(({ id }) => id) });
    } catch (error) {
      process.send({ kind: 'error', message: error.message, code: error.code });
      await sleep(5);
    }
  }
}

const worker = hf.worker({ ...options, concurrency: CALLERS, handleSignals: false });
worker.handle(noop, (ctx) =>
  ctx.transaction((tx) =>
    tx.query('INSERT INTO effects VALUES ($1, $2, $3)', [ctx.id, ctx.fenceToken, process.pid]),
  ),
);
const worked = mode === 'handler' ? worker.run() : null;
await Promise.all(Array.from({ length: CALLERS }, callAgainAndAgain));
await worker.stop();
await worked;
await hf.close();
await pool.end();
process.send({ kind: 'done' });
process.disconnect();
