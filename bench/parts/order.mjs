// Order per key: jobs of ten thousand keys, and of one hot key, each key's jobs one after the
// other. Against graphile-worker's named queues and pg-boss' policy key_strict_fifo; BullMQ has
// groups in its paid edition only.
import { startActor } from '../actors.mjs';
import { drain } from '../draining.mjs';
import { bars, bestPeer, rounds, times } from '../rounds.mjs';
import { measured, median, plain } from '../statistics.mjs';

const CASES = [
  { name: '10k_keys', says: '10,000 keys', keys: 10_000 },
  { name: 'hot_key', says: 'one hot key', keys: 1 },
];

/** pg-boss by default takes one job every two seconds, whatever its keys. */
const notByTheClock = ({ system, configuration }) =>
  system.name !== 'pg-boss' || configuration !== 'default';

/** With many keys the fastest drain, with one key who looks for the next job at once. */
const likely =
  (keys) =>
  ({ ours, configuration }) =>
    ours || (configuration === 'fastest') === keys > 1;

export async function order(context) {
  const { stage, entries, quick, size, span, figure, table, chart, raw, say } = context;
  // All configurations: what makes a drain fast, a local queue or a large batch, does not help a
  // hot key.
  const contestants = entries.all.filter(({ system }) => !system.unordered).filter(notByTheClock);
  if (quick) say('configurations that are known to be slower in a case: skipped in a quick run.');
  const jobs = size(100_000, 20_000);
  const found = new Map();
  for (const { name, says, keys } of CASES) {
    const actors = new Map();
    const takers = quick ? contestants.filter(likely(keys)) : contestants;
    for (const entry of takers) actors.set(entry, await startActor(entry));
    const values = await rounds(takers, quick ? 1 : 2, async (entry) => {
      // Peers run a hot key's jobs one by one; a part of the jobs tells their rate.
      const total = keys === 1 && !entry.ours ? Math.ceil(jobs / 20) : jobs;
      await stage.fill(entry, total, keys);
      const limitMs = span(6_000, 2_500);
      const actor = actors.get(entry);
      const result = await drain(stage, entry, [actor], { total, limitMs, ordered: true });
      say(
        `${says}, ${entry.label}: ${plain(result.perSecond)} jobs/s (${plain(result.count)} jobs)`,
      );
      return result.perSecond;
    });
    for (const actor of actors.values()) await actor.kill();
    found.set(name, values);
    const ours = median(values.get(entries.ours.label));
    times(figure, `order.${name}_over_best_peer`, ours, bestPeer(values, contestants), 2);
    raw(name, Object.fromEntries(values));
  }
  table({
    title: 'Order per key, jobs per second, one process',
    columns: ['', ...CASES.map(({ says }) => says)],
    rows: contestants.map(({ label }) => [
      label,
      ...CASES.map(({ name }) => measured(found.get(name).get(label) ?? [])),
    ]),
  });
  chart({
    file: 'order',
    title: 'Order per key, 10,000 keys, jobs per second',
    bars: bars(found.get('10k_keys'), contestants),
  });
}
