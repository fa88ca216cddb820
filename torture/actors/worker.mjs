// A worker process of the torture. Its handlers write to the history before they begin and after they end, and do
// what handlers do: write in the job's transaction, cause effects elsewhere once, run for long, have children, fail,
// and take their process along.
import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import pg from 'pg';
import { CALM, openHistory } from '../history.mjs';
import { sessionName } from '../schema.mjs';
import { bodies } from './flows.mjs';
import { definitions } from './jobs.mjs';
import { addShapes } from './shapes.mjs';

const PROBE_MS = 400;
const PROBE_LIMITS = { connectionTimeoutMillis: 1_000, query_timeout: 1_000 };

const config = JSON.parse(process.argv[2]);
const product = await import(pathToFileURL(config.product).href);
const { holdfast, job, workflow, RetryLater, DeadLetter } = product;
const history = openHistory(config.folder, config.name);

for (const event of ['unhandledRejection', 'uncaughtException']) {
  process.on(event, (error) => {
    history.record('unhandled', 'note', { event, error: String(error?.stack ?? error) });
    process.exit(70);
  });
}

const answers = new Map();
let asked = 0;
const socket = connect(config.registerPort, '127.0.0.1');
socket.setNoDelay(true);
createInterface({ input: socket }).on('line', (line) => {
  const { n, accepted } = JSON.parse(line);
  answers.get(n)?.(accepted);
  answers.delete(n);
});

/** A write to the register under the attempt's token. A refusal ends the attempt: somebody newer is at work. */
async function register(ctx) {
  const facts = { job: ctx.id, token: ctx.fenceToken };
  history.record('write', 'invoke', facts);
  const n = ++asked;
  const answer = new Promise((resolve) => answers.set(n, resolve));
  socket.write(`${JSON.stringify({ n, ...facts, by: `${config.name}/${process.pid}` })}\n`);
  const accepted = await answer;
  history.record('write', accepted ? 'ok' : 'fail', facts);
  if (!accepted) throw new Error('the register refused a stale token');
}

const effect = (tx, ctx) =>
  tx.query('INSERT INTO torture.effects (job, generation, worker) VALUES ($1, $2, $3)', [
    ctx.id,
    ctx.fenceToken,
    config.name,
  ]);

function failAtFirst(ctx) {
  if (ctx.attempt <= (ctx.payload.fails ?? 0)) throw new RetryLater('100ms', 'fails at first');
}

const hog = [];
const crashes = {
  abort: () => process.abort(),
  exit: () => process.kill(process.pid, 'SIGKILL'),
  bomb() {
    for (;;) hog.push(new Array(200_000).fill({ n: hog.length }));
  },
};

const handlers = {
  async pay(ctx) {
    if (ctx.payload.register) await register(ctx);
    await ctx.transaction(async (tx) => {
      await effect(tx, ctx);
      if (ctx.payload.ms) await sleep(ctx.payload.ms);
    });
  },
  async mail(ctx) {
    history.record('once', 'invoke', { job: ctx.id, gen: ctx.fenceToken });
    await ctx.once('mail', async () => {
      history.record('effect', 'invoke', { job: ctx.id, gen: ctx.fenceToken });
      await sleep(ctx.payload.ms ?? 1);
      history.record('effect', 'ok', { job: ctx.id, gen: ctx.fenceToken });
      return { sent: ctx.fenceToken };
    });
    history.record('once', 'ok', { job: ctx.id, gen: ctx.fenceToken });
    if (ctx.payload.after) await sleep(ctx.payload.after);
  },
  async long(ctx) {
    await register(ctx);
    await sleep(ctx.payload.ms);
    await register(ctx);
  },
  async parent(ctx) {
    const { op, children, inTransaction } = ctx.payload;
    const have = async () => {
      for (let n = 0; n < children; n++)
        await ctx.enqueue(
          jobs.child,
          { op, parent: ctx.id, n },
          { partitionKey: `child:${ctx.id}` },
        );
    };
    if (!inTransaction) return have();
    await ctx.transaction(async (tx) => {
      await effect(tx, ctx);
      await have();
    });
  },
  child: () => {},
  async parcel(ctx) {
    await sleep(ctx.payload.n * 40);
    return ctx.payload.n * 10;
  },
  async flaky(ctx) {
    await sleep(ctx.payload.ms);
    if (ctx.payload.giveUp) throw new DeadLetter('meant to');
    failAtFirst(ctx);
  },
  async crash(ctx) {
    if (ctx.fenceToken > ctx.payload.times || existsSync(join(config.folder, CALM))) return;
    if (ctx.payload.how === 'spin') {
      history.record('spin', 'note', { job: ctx.id, ms: ctx.payload.ms });
      const end = performance.now() + ctx.payload.ms;
      while (performance.now() < end);
      return;
    }
    await sleep(5);
    history.record('crash', 'note', { job: ctx.id, how: ctx.payload.how });
    crashes[ctx.payload.how]();
  },
  async step(ctx) {
    if (ctx.payload.ms) await sleep(ctx.payload.ms);
    failAtFirst(ctx);
    if (ctx.payload.register) await register(ctx);
  },
  async guarded(ctx) {
    failAtFirst(ctx);
    await ctx.transaction(async (tx) => {
      await effect(tx, ctx);
      if (ctx.payload.ms) await sleep(ctx.payload.ms);
      // It commits before the process knows, and one that is killed then never writes down its end.
      history.record('body', 'ok', { job: ctx.id, gen: ctx.fenceToken });
    });
  },
};

/** Those of limits, and of the queues beside the two. */
const waits = (ctx) => sleep(ctx.payload.ms ?? 0);

/** Writes down that the handler runs, and how it ended. */
function told(handler) {
  return async (ctx) => {
    const facts = {
      job: ctx.id,
      gen: ctx.fenceToken,
      type: ctx.type,
      key: ctx.partitionKey,
      n: ctx.payload.n,
      build: config.payVersion ?? 1,
    };
    history.record('run', 'invoke', facts);
    try {
      const value = await handler(ctx);
      history.record('run', 'ok', facts);
      return value;
    } catch (error) {
      const code = error.code ?? error.name;
      history.record('run', 'fail', { ...facts, code, aborted: ctx.signal.aborted });
      throw error;
    }
  };
}

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
/** Every session says whose it is: the witness writes down who changed a row. */
const url = new URL(config.url);
url.searchParams.set('application_name', sessionName(process.pid));
const hf = holdfast({ connectionString: url.href, logger: quiet, ...config.holdfast });
const jobs = definitions(job, config, workflow);

/** Facts of jobs; other events have names that do not matter here. */
const SETTLED = new Set(['completed', 'failed', 'lost', 'released']);
const worker = hf.worker({
  ...config.options,
  onEvent(event) {
    // The checker of shapes asks for what arrived, and not for who settled it.
    if (SETTLED.has(event.kind) && Object.hasOwn(jobs, event.type)) {
      const { kind, id, generation } = event;
      history.record('settle', 'ok', { how: kind, job: id, gen: generation });
    } else if (event.kind === 'started') {
      history.record('worker', 'ok', { id: event.workerId });
      void probe();
      process.send?.({ kind: 'started' });
    } else if (event.kind === 'reregistered') {
      history.record('worker', 'ok', { id: event.workerId, was: event.was });
    } else if (event.kind === 'error') {
      const { what, error } = event;
      history.record('error', 'note', { what, code: error?.code, message: String(error?.message) });
    }
  },
});
/**
 * Whether this process runs and reaches the database, by a question of its own on its own line: by this the checker
 * knows that a worker was alive, whatever the engine wrote down of it.
 */
async function probe() {
  let client = null;
  for (;;) {
    try {
      if (!client) {
        client = new pg.Client({ connectionString: config.url, ...PROBE_LIMITS });
        client.on('error', () => {});
        await client.connect();
      }
      await client.query('SELECT 1');
      history.record('probe', 'ok', {});
    } catch {
      history.record('probe', 'fail', {});
      void client?.end().catch(() => {});
      client = null;
    }
    await sleep(PROBE_MS, undefined, { ref: false });
  }
}

for (const [type, definition] of Object.entries(jobs)) {
  if (config.types && !config.types.includes(type)) continue;
  if (type === 'checkout') worker.workflow(definition, bodies({ parcel: jobs.parcel, DeadLetter }));
  else worker.handle(definition, told(handlers[type] ?? waits));
}
if (config.shapes) await addShapes(worker, hf, config, history);
process.on('disconnect', () => process.exit(0));
process.channel?.unref();
history.record('worker', 'invoke', { release: config.release ?? 'new' });
await worker.run();
history.record('stopped', 'ok', { stats: worker.stats });
await hf.close();
socket.destroy();
process.exit(0);
