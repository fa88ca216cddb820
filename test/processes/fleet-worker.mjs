/**
 * A worker process for the tests of the fleet. Its handlers write down in the database when they start
 * and how they end, through the functions of `test/support/order-log.ts`; those that would slow a long
 * queue down count in memory instead, and tell when they are asked.
 *
 * The config may say which types it handles and at which version; by default it handles all at version 1.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { holdfast, job, RetryLater } from './product.mjs';

const { url, options, handles } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url });
const pool = new pg.Pool({ connectionString: url, max: 1, allowExitOnIdle: true });
pool.on('error', () => undefined);

function tell(message) {
  if (process.connected) process.send(message);
}

/** Notes that wait for the statement in flight; those of one statement are about different keys. */
let waiting = [];
let noting = false;

function note(ctx, kind) {
  return new Promise((resolve, reject) => {
    waiting.push({ ctx, kind, resolve, reject });
    if (!noting) void writeNotes();
  });
}

async function writeNotes() {
  noting = true;
  while (waiting.length > 0) {
    const batch = waiting;
    waiting = [];
    try {
      await pool.query(
        `SELECT note(kind, job, generation, $5, key, n)
         FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::text[], $6::int[])
           AS t(kind, job, generation, key, n)`,
        [
          batch.map(({ kind }) => kind),
          batch.map(({ ctx }) => ctx.id),
          batch.map(({ ctx }) => ctx.fenceToken),
          batch.map(({ ctx }) => ctx.partitionKey),
          process.pid,
          batch.map(({ ctx }) => ctx.payload.n),
        ],
      );
      for (const { resolve } of batch) resolve();
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
  noting = false;
}

/** Fails in its first attempts, if it is to. */
async function attempt(ctx) {
  const { ms, fails = 0 } = ctx.payload;
  if (ms) await sleep(ms);
  if (ctx.attempt > fails) return;
  await note(ctx, 'failed');
  throw new Error(`attempt ${ctx.attempt} fails`);
}

/** Numbers of the jobs of the hot key, in the order in which they were started: runs from .. to. */
const hotRuns = [];
const gates = new Map();

const handlers = {
  noop() {},
  async step(ctx) {
    await note(ctx, 'start');
    await attempt(ctx);
    await note(ctx, 'end');
  },
  /** What it writes and its completion are one transaction. */
  async guarded_step(ctx) {
    await note(ctx, 'start');
    await attempt(ctx);
    await ctx.transaction((tx) =>
      tx.query('SELECT note($1, $2, $3, $4, $5, $6)', [
        'end',
        ctx.id,
        ctx.fenceToken,
        process.pid,
        ctx.partitionKey,
        ctx.payload.n,
      ]),
    );
  },
  /** When it began and ended is written in the transaction that completes it, so only attempts that count are. */
  async witnessed(ctx) {
    await ctx.transaction(async (tx) => {
      const { rows } = await tx.query('SELECT clock_timestamp()::text AS at');
      await sleep(ctx.payload.ms);
      await tx.query('INSERT INTO witness VALUES ($1, $2, $3, $4, clock_timestamp())', [
        ctx.id,
        ctx.partitionKey,
        ctx.payload.group ?? null,
        rows[0].at,
      ]);
    });
  },
  /** Waits for the parent's word; does not look at its signal. */
  async gated(ctx) {
    await note(ctx, 'start');
    const told = new Promise((resolve) => gates.set(ctx.id, resolve));
    ctx.signal.addEventListener('abort', () => {
      tell({ kind: 'aborted', id: ctx.id, code: ctx.signal.reason?.code });
    });
    tell({ kind: 'handling', id: ctx.id });
    await told;
    await note(ctx, 'end');
  },
  hot({ payload: { n } }) {
    const last = hotRuns.at(-1);
    if (last?.to === n - 1) last.to = n;
    else hotRuns.push({ from: n, to: n });
  },
  async failing(ctx) {
    await note(ctx, 'start');
    await note(ctx, 'failed');
    throw new RetryLater('1h', 'this key always fails');
  },
};

const TOLD = new Set(['started', 'reregistered', 'lost', 'maintained']);

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
for (const [type, version] of Object.entries(
  handles ?? Object.fromEntries(Object.keys(handlers).map((name) => [name, 1])),
)) {
  const upgrade = Object.fromEntries(
    Array.from({ length: version - 1 }, (_, old) => [old + 1, (payload) => payload]),
  );
  const definition = job(type, { version, upgrade, retry: () => 30 });
  worker.handle(definition, handlers[type] ?? handlers.noop);
}

const commands = {
  finish: ({ id }) => gates.get(id)?.(),
  stats: () => tell({ kind: 'stats', stats: worker.stats, workerId: worker.id }),
  hotRuns: () => tell({ kind: 'hotRuns', runs: hotRuns }),
};
process.on('message', (command) => commands[command.do](command));
process.on('disconnect', () => process.exit(0));
process.channel.unref();

await worker.run();
tell({ kind: 'ended', stats: worker.stats });
await hf.close();
await pool.end();
