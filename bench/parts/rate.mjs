// End to end at a fixed offered rate: one process enqueues, one job per transaction, at times that
// do not wait for anybody; one process works, and each handler waits a millisecond. The highest
// rate at which 99 of 100 handlers start within 100 ms is searched in short trials, and then held
// for two minutes by Holdfast and by the best peer; who cannot tries again a tenth lower.
import { capacityOf, LIMIT_MS, offered } from '../offering.mjs';
import { besideRedis, bestPeer, times } from '../rounds.mjs';
import { plain } from '../statistics.mjs';

/**
 * Processes that have just begun are slow, and what they leave undone then delays what follows: a short
 * trial would measure that and not the rate.
 */
const WARM_MS = 2_000;

/** Upwards while it holds, downwards while it does not, then half of the room between. */
async function search(context, entry, { trialMs, trials, capacityMs, warmMs }) {
  const top = await capacityOf(context, entry, capacityMs);
  if (top < 10) return 0;
  let low = 0;
  let high = Number.POSITIVE_INFINITY;
  let rate = top * 0.85;
  for (let trial = 0; trial < trials; trial++) {
    const { held, p99 } = await offered(context, entry, { rate, ms: trialMs, warmMs });
    context.say(
      `${entry.label} at ${plain(rate)} jobs/s: p99 ${p99.toFixed(1)} ms, ${held ? 'held' : 'not held'}`,
    );
    if (held) low = rate;
    else high = rate;
    if (low === 0) rate = high * 0.6;
    else rate = high === Number.POSITIVE_INFINITY ? low * 1.4 : (low + high) / 2;
  }
  return low;
}

async function confirm(context, entry, found, ms) {
  for (let rate = found, trial = 0; trial < 4; trial++, rate *= 0.9) {
    const { held, p99 } = await offered(context, entry, { rate, ms, warmMs: WARM_MS });
    context.say(
      `${entry.label} at ${plain(rate)} jobs/s for ${ms / 1000} s: p99 ${p99.toFixed(1)} ms, ${held ? 'held' : 'not held'}`,
    );
    if (held) return rate;
  }
  return 0;
}

export async function rate(context) {
  const { entries, quick, span, figure, fact, table, chart, raw, say } = context;
  const slow = ({ system, configuration }) =>
    configuration === 'default' && system.name !== 'graphile-worker';
  const peers = quick
    ? entries.fastest.filter(({ system }) => system.package !== 'bullmq')
    : [...entries.fastest, ...entries.defaults];
  const contestants = [entries.ours, ...peers.filter((entry) => !slow(entry))];
  say(
    'pg-boss and BullMQ by default take one job at a time, pg-boss every two seconds: not searched.',
  );
  if (quick)
    say(
      "BullMQ, peers' default configurations, and holding it for two minutes: skipped in a quick run.",
    );
  const sizes = quick
    ? { trialMs: 1_000, trials: 3, capacityMs: 600, warmMs: 500 }
    : { trialMs: span(4_000), trials: 5, capacityMs: span(3_000), warmMs: WARM_MS };
  const values = new Map();
  for (const entry of contestants) values.set(entry.label, [await search(context, entry, sizes)]);
  const best = bestPeer(values, contestants);
  if (!quick) {
    for (const entry of contestants) {
      if (!entry.ours && entry.label !== best.label) continue;
      const held = await confirm(context, entry, values.get(entry.label)[0], span(120_000));
      values.set(entry.label, [held]);
    }
  }
  const [ours] = values.get(entries.ours.label);
  times(figure, 'rate.held_over_best_peer', ours, bestPeer(values, contestants), 2);
  besideRedis(fact, 'rate.held_over_best_postgres_peer', ours, values, contestants);
  raw('held', Object.fromEntries(values));
  table({
    title: `Highest offered rate with p99 under ${LIMIT_MS} ms, handlers of 1 ms, jobs per second`,
    columns: ['', 'jobs/s'],
    rows: contestants.map(({ label }) => [label, plain(values.get(label)[0])]),
  });
  chart({
    file: 'rate',
    title: `Offered rate held with p99 under ${LIMIT_MS} ms, jobs per second`,
    bars: contestants.map(({ label, ours: mine }) => ({
      label,
      ours: mine,
      value: values.get(label)[0],
    })),
  });
}
