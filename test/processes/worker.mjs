/**
 * A worker process for the crash tests. Its handlers are named by what they do; they tell the parent
 * over IPC, and write rows where effects are counted. Errors that nobody handles end it, as Node does.
 *
 * The channel to the parent does not keep the process alive: when the worker has stopped and everything
 * is closed, it has to end by itself.
 */
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { holdfast, job } from './product.mjs';

const { url, options } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url });
const pool = new pg.Pool({ connectionString: url, max: 2, allowExitOnIdle: true });
pool.on('error', () => undefined);

function tell(message) {
  if (process.connected) process.send(message);
}

const facts = (ctx) => ({ id: ctx.id, generation: ctx.fenceToken });

/** Gates that the parent opens with `finish`. */
const gates = new Map();

function gate(ctx) {
  const told = new Promise((resolve) => gates.set(ctx.id, resolve));
  const aborted = new Promise((_, reject) => {
    ctx.signal.addEventListener('abort', () => {
      tell({ kind: 'aborted', ...facts(ctx), code: ctx.signal.reason?.code });
      if (!ctx.payload.stubborn) reject(ctx.signal.reason);
    });
  });
  return Promise.race([told, aborted]);
}

/** Starts that wait for the INSERT in flight; those of one INSERT are recorded, or refused, together. */
let waiting = [];
let inserting = false;

function record(ctx) {
  return new Promise((resolve, reject) => {
    waiting.push({ ...facts(ctx), resolve, reject });
    if (!inserting) void insertStarts();
  });
}

async function insertStarts() {
  inserting = true;
  while (waiting.length > 0) {
    const batch = waiting;
    waiting = [];
    try {
      await pool.query(
        `INSERT INTO starts SELECT job_id, generation, $3::int
         FROM unnest($1::uuid[], $2::bigint[]) AS s(job_id, generation)`,
        [batch.map((one) => one.id), batch.map((one) => one.generation), process.pid],
      );
      for (const one of batch) one.resolve();
    } catch (error) {
      tell({ kind: 'refused', code: error.code, message: error.message });
      for (const one of batch) one.reject(error);
    }
  }
  inserting = false;
}

const effect = (db, ctx) =>
  db.query('INSERT INTO effects VALUES ($1, $2, $3)', [ctx.id, ctx.fenceToken, process.pid]);

const active = (ctx) => !ctx.payload.firstOnly || ctx.fenceToken === 1;

/** Takes `ms`, or waits for the parent's word: always, or from the second generation on. */
async function slow(ctx) {
  const { ms, thenGated } = ctx.payload;
  if (thenGated ? ctx.fenceToken > 1 : active(ctx) && ms === undefined) await gate(ctx);
  else if (ms !== undefined) await sleep(ms);
}

const handlers = {
  noop() {},
  recorded: record,
  /** Waits for the parent's word. */
  async gated(ctx) {
    tell({ kind: 'handling', ...facts(ctx) });
    if (active(ctx)) await gate(ctx);
  },
  /** The same inside a transaction that has written an effect. */
  guarded: (ctx) =>
    ctx.transaction(async (tx) => {
      await effect(tx, ctx);
      tell({ kind: 'handling', ...facts(ctx) });
      await slow(ctx);
    }),
  /** Ends on its own after a while, and does not look at its signal. */
  async late(ctx) {
    tell({ kind: 'handling', ...facts(ctx) });
    await slow(ctx);
  },
  /** Blocks the event loop. */
  spin(ctx) {
    tell({ kind: 'handling', ...facts(ctx) });
    if (active(ctx)) spin(ctx.payload);
    tell({ kind: 'spun', ...facts(ctx) });
  },
  /** Never ends, and keeps the event loop busy meanwhile. */
  never(ctx) {
    tell({ kind: 'handling', ...facts(ctx) });
    return new Promise(() => void setInterval(() => {}, 1_000));
  },
  /** Is stuck in a call to the database: on a connection of its own, or in the job's transaction. */
  async blocked(ctx) {
    tell({ kind: 'handling', ...facts(ctx) });
    await pool.query('SELECT pg_sleep(600)');
  },
  blocked_in_transaction: (ctx) =>
    ctx.transaction(async (tx) => {
      await effect(tx, ctx);
      tell({ kind: 'handling', ...facts(ctx) });
      await tx.query('SELECT pg_sleep(600)');
    }),
  poison() {
    process.abort();
  },
  /** Waits at first, and is poison from the second generation on. */
  async fatal(ctx) {
    tell({ kind: 'handling', ...facts(ctx) });
    if (ctx.fenceToken > 1) process.abort();
    await gate(ctx);
  },
};

/** For `ms`, or until a file is there: nothing else reaches a process that spins. */
function spin({ ms = 60_000, untilFile }) {
  const end = performance.now() + ms;
  while (performance.now() < end && !(untilFile && existsSync(untilFile)));
}

const TOLD = new Set(['started', 'reregistered', 'stopped', 'lost', 'maintained']);

const worker = hf.worker({
  ...options,
  onEvent(event) {
    if (TOLD.has(event.kind)) tell(event);
    if (event.kind === 'error') {
      const { what, error } = event;
      tell({ kind: 'error', what, message: error.message, code: error.code });
    }
  },
});
const retry = { base: '50ms', cap: '50ms' };
for (const [type, handler] of Object.entries(handlers))
  worker.handle(job(type, { retry }), handler);
/** The first of a batch is done; in the first generation the others never are. */
worker.handleMany(job('batched', { retry }), { max: 3, within: '200ms' }, async (jobs) => {
  jobs[0].done();
  for (const one of jobs) tell({ kind: 'handling', ...facts(one) });
  if (jobs.some((one) => one.fenceToken === 1))
    await new Promise(() => void setInterval(() => {}, 1_000));
});

const commands = {
  finish: ({ id }) => gates.get(id)?.(),
  spin: (command) => {
    tell({ kind: 'spinning' });
    spin(command);
  },
  stats: () => tell({ kind: 'stats', stats: worker.stats, workerId: worker.id }),
  memory: () => {
    global.gc();
    const { heapUsed, rss } = process.memoryUsage();
    tell({ kind: 'memory', heapUsed, rss, stats: worker.stats });
  },
};
process.on('message', (command) => commands[command.do](command));
process.on('disconnect', () => process.exit(0));
process.channel.unref();

try {
  await worker.run();
} catch (error) {
  tell({ kind: 'refused-start', code: error.code, message: error.message, what: error.name });
  process.exitCode = 3;
}
tell({ kind: 'ended', stats: worker.stats });
await hf.close();
await pool.end();
