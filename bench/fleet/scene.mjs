// The scene of a short scenario: a fresh database, a producer in this process, worker processes, and
// a record of when each task started and ended, and where. It uses Holdfast's public API only.
// A task is `{ n, ms }`: its number, and how long its handler waits.
import pg from 'pg';
import { holdfast, job } from '../../packages/holdfast/dist/index.js';
import { became, clock, wait } from '../clock.mjs';
import { startWorker, stopWorkers } from './processes.mjs';

const task = job('task');
/** Members know each other, and listeners listen. */
const SETTLE_MS = 2_000;

export async function openScene(databases, system) {
  const url = await databases.fresh(system);
  const pool = new pg.Pool({ connectionString: url });
  const hf = holdfast({ connectionString: url, pool });
  const admin = new pg.Client({ connectionString: url });
  for (const session of [pool, admin]) session.on('error', () => {});
  await admin.connect();
  // n → the last start, how many there were, and the last end.
  const tasks = new Map();

  function hear({ kind, events }, child) {
    if (kind !== 'tasks') return;
    for (const [event, n, at] of events) {
      const one = tasks.get(n) ?? { starts: 0 };
      if (event === 'start') tasks.set(n, { starts: one.starts + 1, start: at, child });
      else tasks.set(n, { ...one, end: at });
    }
  }

  /** Resolves when it is registered. */
  const worker = (options = {}, queues = []) =>
    new Promise((resolve, reject) => {
      const child = startWorker(
        url,
        options,
        (message) => {
          if (message.kind === 'started') resolve(child);
          hear(message, child);
        },
        queues,
      );
      child.once('exit', (code) => reject(new Error(`a worker ended with ${code}`)));
    });

  return {
    url,
    hf,
    admin,
    tasks,
    worker,
    /** Worker processes with the same options, registered and settled. */
    async workers(count, options) {
      const all = await Promise.all(Array.from({ length: count }, () => worker(options)));
      await wait(SETTLE_MS);
      return all;
    },
    settle: () => wait(SETTLE_MS),
    /** Writes tasks in one insert; returns the moment before it on the common clock. */
    async enqueue(list) {
      const at = clock();
      await hf.enqueueMany(list.map(({ n, ms, ...options }) => task.item({ n, ms }, options)));
      return at;
    },
    /** Whether all of them have started, or ended, within the limit. */
    all: (list, what, limitMs) =>
      became(() => list.every(({ n }) => tasks.get(n)?.[what] !== undefined), limitMs),
    async close() {
      await stopWorkers();
      await hf.close();
      await pool.end();
      await admin.end();
    },
  };
}

/** Tasks `prefix 0`, `prefix 1`, …, each of `ms` milliseconds. */
export const tasksOf = (prefix, count, ms) =>
  Array.from({ length: count }, (_, n) => ({ n: `${prefix} ${n}`, ms }));

const seconds = (ms) => (Number.isFinite(ms) ? `${(ms / 1000).toFixed(2)} s` : 'not in time');

/** A figure in seconds, of a value in milliseconds; what did not happen is Infinity. */
export const secondsFigure = (figure, name, ms, limitMs) =>
  figure(`fleet.${name}`, seconds(ms), `<= ${limitMs / 1000} s`, ms <= limitMs);
