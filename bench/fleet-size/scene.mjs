// The scene of a row: a fresh database, a meter on it, a producer in this process, worker processes,
// and a record of when each job started and ended. It uses Holdfast's public API only.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { holdfast, job } from '../../packages/holdfast/dist/index.js';
import { became, clock, wait } from '../clock.mjs';
import { percentile } from '../statistics.mjs';
import { openMeter } from './meter.mjs';

const SCRIPT = fileURLToPath(new URL('./worker.mjs', import.meta.url));
/** Members know each other, and listeners listen. */
const SETTLE_MS = 1_500;
/** Jobs of one INSERT. */
const BATCH = 10_000;
const running = new Set();
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export async function killWorkers(children = [...running]) {
  await Promise.all(
    children
      .filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)
      .map((child) => {
        const gone = new Promise((resolve) => child.once('exit', resolve));
        child.kill('SIGKILL');
        return gone;
      }),
  );
}

export async function openScene({ databases, system, server }) {
  const url = await databases.fresh(system);
  const pool = new pg.Pool({ connectionString: url });
  const admin = new pg.Client({ connectionString: url });
  for (const session of [pool, admin]) session.on('error', () => {});
  await admin.connect();
  const hf = holdfast({ connectionString: url, pool, logger: quiet });
  const meter = await openMeter(url, server.pid);
  /** `type n` → the first start, how many there were, and the last end. */
  const runs = new Map();
  const counts = { started: 0, lastAt: 0 };

  function hear({ kind, parcel, count, at }) {
    if (kind === 'count') {
      counts.started += count;
      counts.lastAt = at;
    }
    if (kind !== 'runs') return;
    for (const [event, type, n, when] of parcel) {
      const name = `${type} ${n}`;
      const one = runs.get(name) ?? { starts: 0, start: when };
      if (event === 'start') one.starts++;
      else one.end = when;
      runs.set(name, one);
    }
  }

  /** Resolves with the process when it is registered, or rejects with what it was told. */
  const worker = ({ types, options = {}, counted = false }) =>
    new Promise((resolve, reject) => {
      const child = fork(SCRIPT, [JSON.stringify({ url, options, types, counted })], {
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      });
      running.add(child);
      child.on('message', (message) => {
        if (message.kind === 'started') resolve(child);
        if (message.kind === 'refused') reject(new Error(message.message));
        hear(message);
      });
      child.once('exit', (code) => {
        running.delete(child);
        reject(new Error(`a worker ended with ${code}`));
      });
    });

  return {
    url,
    hf,
    admin,
    meter,
    runs,
    counts,
    worker,
    /** So many processes of one kind, registered and settled. */
    async workers(count, config) {
      const all = await Promise.all(Array.from({ length: count }, () => worker(config)));
      await wait(SETTLE_MS);
      return all;
    },
    /** Jobs `type 0`, `type 1` … as fast as they can be written. */
    async fill(definition, count, itemOf = (n) => ({ payload: { n, ms: 0 } })) {
      for (let from = 0; from < count; from += BATCH)
        await hf.enqueueMany(
          Array.from({ length: Math.min(BATCH, count - from) }, (_, k) => {
            const { payload, options } = itemOf(from + k);
            return definition.item(payload, options);
          }),
        );
    },
    /** A session of somebody else. */
    async session() {
      const client = new pg.Client({ connectionString: url });
      client.on('error', () => {});
      await client.connect();
      return client;
    },
    /**
     * Offers jobs at a rate; returns the moment of each. `names` begin with a prefix of their own, so
     * that a type can be offered several times in one scene.
     */
    async offer(definition, { perSecond, seconds, prefix, ms = 0 }) {
      const offered = [];
      const from = clock();
      const writes = [];
      for (let n = 0; n < perSecond * seconds; n++) {
        const due = from + (n * 1000) / perSecond;
        if (clock() < due) await wait(due - clock());
        offered.push({ name: `${definition.type} ${prefix} ${n}`, at: clock() });
        writes.push(hf.enqueue(definition, { n: `${prefix} ${n}`, ms }));
      }
      await Promise.all(writes);
      return offered;
    },
    /** Whether all of them started, or ended, within the limit. */
    all: (offered, what, limitMs) =>
      became(() => offered.every(({ name }) => runs.get(name)?.[what] !== undefined), limitMs),
    /** Milliseconds from offer to start; what did not start is Infinity. */
    waits: (offered) =>
      offered.map(({ name, at }) => (runs.get(name)?.start ?? Number.POSITIVE_INFINITY) - at),
    settle: () => wait(SETTLE_MS),
    async close() {
      await killWorkers();
      await hf.close();
      await pool.end();
      await meter.close();
      await admin.end();
    },
  };
}

export const startsOf = (waits) => ({ p50: percentile(waits, 0.5), p99: percentile(waits, 0.99) });

export const task = job('task');
