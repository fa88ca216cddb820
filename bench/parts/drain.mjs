// Drain: no-op jobs, emptied by 1, 2 and 4 processes, from the first handler's start until the
// database holds no unfinished job. Peers in their fastest configuration take part in the
// repetitions; in their default one they run once, for a few seconds. Beside them the bare
// statements in a loop.
import { startActors } from '../actors.mjs';
import { BARE_BATCH, bareDrain } from '../bare.mjs';
import { drain as drained } from '../draining.mjs';
import { openFixture } from '../fixture.mjs';
import { bars, besideRedis, bestPeer, jobsFor, rounds, share, times } from '../rounds.mjs';
import { measured, median, plain } from '../statistics.mjs';

const PROCESSES = [1, 2, 4];
/** Code that runs for days is warm: each process has run tens of thousands of jobs before it counts. */
const WARM_MS = 8_000;
const GOALS = { 1: 1.5, 2: 1.1, 4: 1.1 };
/** Where completed jobs are deleted, as graphile-worker does: equal work. */
const GOALS_WITHOUT_ARCHIVE = { 1: 2, 2: 1.5, 4: 1.5 };

/** Processes for all numbers of them, warm: the first drain is not counted. */
async function warmActors({ stage }, entries, { jobs }) {
  const actors = new Map();
  for (const entry of entries) {
    const all = await startActors(entry, Math.max(...PROCESSES));
    actors.set(entry, all);
    const total = jobsFor(entry, jobs);
    await stage.fill(entry, total);
    await drained(stage, entry, all, { total, limitMs: WARM_MS });
  }
  return actors;
}

async function series({ stage, say }, actors, processes, { jobs, limitMs, count }) {
  return rounds([...actors.keys()], count, async (entry, round) => {
    const total = jobsFor(entry, jobs);
    await stage.fill(entry, total);
    const some = actors.get(entry).slice(0, processes);
    const result = await drained(stage, entry, some, { total, limitMs });
    say(
      `${processes} × ${entry.label}, round ${round + 1}: ${plain(result.perSecond)} jobs/s` +
        `${result.whole ? '' : ` (${plain(result.count)} of ${plain(total)} jobs in the time)`}`,
    );
    return result.perSecond;
  });
}

async function bareRates({ stage, entries, url, say }, jobs, count) {
  const fixture = await openFixture(url);
  const rates = [];
  for (let round = 0; round < count; round++) {
    await stage.fill(entries.ours, jobs);
    rates.push(await bareDrain(fixture, jobs));
  }
  await fixture.close();
  say(`bare statements, batches of ${BARE_BATCH}: ${measured(rates)} jobs/s`);
  return rates;
}

async function synchronousOff(context, actors, sizes) {
  const { stage, table, raw, say } = context;
  if (context.quick) return say('synchronous_commit = off: skipped in a quick run.');
  await stage.synchronousCommit(false);
  const values = await series(context, actors, 1, { ...sizes, count: 1 });
  await stage.synchronousCommit(true);
  raw('drain_synchronous_commit_off', Object.fromEntries(values));
  table({
    title: 'Drain with synchronous_commit = off, 1 process, jobs per second',
    columns: ['', 'jobs/s'],
    rows: [...values].map(([label, all]) => [label, measured(all)]),
  });
}

async function defaultRates(context) {
  const actors = new Map();
  for (const entry of context.entries.defaults) actors.set(entry, await startActors(entry, 1));
  return series(context, actors, 1, { jobs: 20_000, limitMs: 5_000, count: 1 });
}

export async function drain(context) {
  const { entries, quick, size, figure, fact, table, chart, raw, say } = context;
  // Far behind the others in every run; a quick one spends no time on it.
  const able = ({ system }) => !quick || system.package !== 'bullmq';
  const archiveless = { ...entries.ours, label: 'holdfast (no archive)', archive: false };
  const contestants = [entries.ours, archiveless, ...entries.fastest.filter(able)];
  const sizes = { jobs: size(200_000, 20_000), limitMs: quick ? 5_000 : 30_000 };
  const count = (processes) => (quick ? 1 : processes === 1 ? 3 : 2);
  const actors = await warmActors(context, contestants, sizes);
  const byProcesses = new Map();
  for (const processes of PROCESSES) {
    byProcesses.set(
      processes,
      await series(context, actors, processes, { ...sizes, count: count(processes) }),
    );
  }
  for (const [processes, values] of byProcesses) {
    const ours = median(values.get(entries.ours.label));
    const name = `drain.${processes}_process${processes > 1 ? 'es' : ''}_over_best_peer`;
    const peer = bestPeer(values, contestants);
    times(figure, name, ours, peer, GOALS[processes]);
    const without = median(values.get(archiveless.label));
    times(figure, `${name}_without_archive`, without, peer, GOALS_WITHOUT_ARCHIVE[processes]);
    besideRedis(fact, name.replace('peer', 'postgres_peer'), ours, values, contestants);
    raw(`${processes} processes`, Object.fromEntries(values));
  }
  const bare = await bareRates(context, sizes.jobs, count(1));
  const single = byProcesses.get(1);
  raw('bare', bare);
  const ours = median(single.get(entries.ours.label));
  share(figure, 'drain.share_of_bare_statements', ours, median(bare), 0.7);

  const defaults = quick ? new Map() : await defaultRates(context);
  if (quick) say("BullMQ, and peers' default configurations: skipped in a quick run.");
  raw('defaults', Object.fromEntries(defaults));
  table({
    title: `Drain of ${plain(sizes.jobs)} no-op jobs, jobs per second`,
    columns: ['', ...PROCESSES.map((n) => `${n} process${n > 1 ? 'es' : ''}`)],
    rows: [
      ...contestants.map(({ label }) => [
        label,
        ...PROCESSES.map((n) => measured(byProcesses.get(n).get(label))),
      ]),
      ['bare statements, one connection', measured(bare), '–', '–'],
      ...[...defaults].map(([label, values]) => [label, measured(values), '–', '–']),
    ],
  });
  chart({
    file: 'drain',
    title: 'Drain, no-op jobs per second, 1 process',
    bars: bars(single, contestants),
  });
  await synchronousOff(context, actors, sizes);
}
