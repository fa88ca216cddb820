// Latency from the call of enqueue to the handler's start in another process: idle, one job at a
// time with a pause between; and under load. The load is the same number of jobs per second for
// everybody: half of what the best Postgres peer can put through. Each system is also measured at
// half of its own capacity, which is told and has no goal: whoever carries six times the load may
// be slower.
import { startActor } from '../actors.mjs';
import { became, clock, wait } from '../clock.mjs';
import { capacityOf, offered } from '../offering.mjs';
import { percentile } from '../statistics.mjs';

const milliseconds = (value) => (value === undefined ? '–' : `${value.toFixed(2)} ms`);
const both = (all) => ({
  p50: percentile(all, 0.5),
  p99: percentile(all, 0.99),
  samples: all.length,
});

async function idle(stage, entry, { samples, limitMs }) {
  await stage.empty(entry);
  const worker = await startActor(entry);
  await worker.work({ stamps: true });
  const producer = await entry.system.producer(entry.url, {
    connections: 2,
    configuration: entry.configuration,
  });
  // The first jobs meet cold code and connections that are only just made.
  const warm = 3;
  const over = clock() + limitMs;
  for (let n = 0; n < samples + warm; n++) {
    const before = worker.progress.count;
    await producer.one({ orderId: n, at: clock(), warm: n < warm });
    await became(() => worker.progress.count > before, 5_000, 5);
    if (clock() > over) break;
    await wait(20 + Math.random() * 40);
  }
  await wait(60);
  const all = worker.progress.latencies;
  await producer.close();
  await worker.kill();
  return all;
}

function compare({ figure }, name, results, entries) {
  for (const part of ['p50', 'p99']) {
    const ours = results.get(entries.ours.label)[part];
    const [best] = entries.all
      .filter(({ ours: mine, system, label }) => !mine && system.postgres && results.has(label))
      .map(({ label }) => ({ label, value: results.get(label)[part] }))
      .filter(({ value }) => value !== undefined)
      .sort((a, b) => a.value - b.value);
    if (!best)
      figure(`latency.${name}_${part}`, milliseconds(ours), '<= best Postgres peer', false);
    else
      figure(
        `latency.${name}_${part}`,
        milliseconds(ours),
        `<= ${milliseconds(best.value)} of ${best.label}`,
        ours <= best.value,
      );
  }
}

async function loaded(context, contestants) {
  const { quick, span, say } = context;
  const ms = span(8_000, 1_000);
  const capacities = new Map();
  for (const entry of contestants) {
    capacities.set(entry.label, await capacityOf(context, entry, span(3_000, 600)));
  }
  const peers = contestants.filter(({ ours, system }) => !ours && system.postgres);
  const rate = Math.max(...peers.map(({ label }) => capacities.get(label))) / 2;
  const same = new Map();
  const own = new Map();
  for (const entry of contestants) {
    const half = capacities.get(entry.label) / 2;
    same.set(entry.label, both((await offered(context, entry, { rate, ms })).latencies));
    if (!quick)
      own.set(entry.label, both((await offered(context, entry, { rate: half, ms })).latencies));
    say(
      `${entry.label}: can put ${Math.round(capacities.get(entry.label))} jobs/s through; at ${Math.round(rate)}/s ` +
        `p50 ${milliseconds(same.get(entry.label).p50)}, p99 ${milliseconds(same.get(entry.label).p99)}`,
    );
  }
  return { rate, capacities, same, own };
}

export async function latency(context) {
  const { stage, entries, quick, span, table, chart, raw, say } = context;
  const fast = [entries.ours, ...entries.fastest];
  const contestants = quick ? fast : [...fast, ...entries.defaults];
  if (quick)
    say("peers' default configurations, and half of the own capacity: skipped in a quick run.");
  const found = new Map(contestants.map(({ label }) => [label, []]));
  for (let round = 0; round < (quick ? 1 : 2); round++) {
    for (const entry of contestants) {
      const some = { samples: quick ? 30 : 100, limitMs: span(20_000, 4_000) };
      found.get(entry.label).push(...(await idle(stage, entry, some)));
    }
  }
  const idleResults = new Map([...found].map(([label, all]) => [label, both(all)]));
  for (const [label, { p50, p99, samples: n }] of idleResults)
    say(`idle, ${label}: p50 ${milliseconds(p50)}, p99 ${milliseconds(p99)} (${n} jobs)`);
  compare(context, 'idle', idleResults, entries);

  const { rate, capacities, same, own } = await loaded(context, fast);
  compare(context, 'half_load', same, entries);
  raw('latency', {
    idle: Object.fromEntries(idleResults),
    loadPerSecond: rate,
    capacities: Object.fromEntries(capacities),
    sameLoad: Object.fromEntries(same),
    ownHalf: Object.fromEntries(own),
  });
  const cells = (result) => [milliseconds(result?.p50), milliseconds(result?.p99)];
  table({
    title: `Latency, enqueue to handler start; load ${Math.round(rate)} jobs/s, half of what the best Postgres peer can put through`,
    columns: ['', 'idle p50', 'p99', 'loaded p50', 'p99', 'at half of its own capacity p50', 'p99'],
    rows: contestants.map(({ label }) => [
      label,
      ...cells(idleResults.get(label)),
      ...cells(same.get(label)),
      ...cells(own.get(label)),
    ]),
  });
  chart({
    file: 'latency',
    title: 'Latency idle, p99 in ms (shorter is better)',
    bars: fast.map(({ label, ours }) => ({ label, ours, value: idleResults.get(label).p99 })),
  });
}
