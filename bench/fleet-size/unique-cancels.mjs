// Row 13. Enqueues of many unique keys at once race with cancels of the same jobs: rows are locked in
// one order, so nobody waits in a circle.
import { job } from '../../packages/holdfast/dist/index.js';
import { clock } from '../clock.mjs';
import { plain } from '../statistics.mjs';
import { atMost } from './figures.mjs';

const KEYS = 200;
const BATCH = 60;
const PRODUCERS = 4;
const unique = job('unique');

function shuffled(list) {
  const copy = [...list];
  for (let at = copy.length - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1));
    [copy[at], copy[other]] = [copy[other], copy[at]];
  }
  return copy;
}

export async function run({ open, size, figure, say }) {
  const scene = await open();
  const before = await scene.meter.deadlocks();
  const until = clock() + size(20, 5) * 1_000;
  const keys = Array.from({ length: KEYS }, (_, n) => `key:${n}`);
  const known = new Map();
  const counts = { enqueues: 0, cancels: 0, failed: 0 };

  async function produce() {
    while (clock() < until) {
      const some = shuffled(keys).slice(0, BATCH);
      const items = some.map((key) =>
        unique.item({ n: key, ms: 0 }, { unique: { key, onConflict: 'replace' } }),
      );
      try {
        const found = await scene.hf.enqueueMany(items);
        for (const [n, { id }] of found.entries()) known.set(some[n], id);
        counts.enqueues++;
      } catch {
        counts.failed++;
      }
    }
  }
  async function cancel() {
    while (clock() < until) {
      const ids = shuffled([...known.values()]).slice(0, BATCH);
      try {
        if (ids.length > 0) await scene.hf.cancel(ids, { audit: false });
        counts.cancels++;
      } catch {
        counts.failed++;
      }
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }
  await Promise.all([...Array.from({ length: PRODUCERS }, produce), cancel(), cancel()]);
  await scene.admin.query('SELECT pg_stat_force_next_flush()');
  const deadlocks = (await scene.meter.deadlocks()) - before;
  say(
    `  ${plain(counts.enqueues)} enqueues of ${BATCH} keys, ${plain(counts.cancels)} cancels, ${counts.failed} failed`,
  );
  atMost(figure, 'unique_cancels_deadlocks', deadlocks, 0);
  await scene.close();
}
