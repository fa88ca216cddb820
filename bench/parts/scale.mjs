// Scale on paper: from what a job costs, what servers of 2, 8, 32 and 96 cores would hold, how many
// worker processes that takes, and which assumption breaks first. Nothing here is measured at that
// size; it says what would have to be true.

import { plain } from '../statistics.mjs';
import { costOf } from './cost.mjs';

const CORES = [2, 8, 32, 96];
/** A server that is busier than this has no room for a bad minute. */
const BUSY = 0.7;
/** Linear in cores is the assumption; these are limits that do not grow with them. */
const LIMITS = {
  logMbPerSecond: 1_000,
  wireMbPerSecond: 1_250,
  workerProcesses: 300,
};

/** Which of the limits is nearest at this rate, and how much of it is used. */
function nearest({ perSecond, cost, workers, flushesPerSecond, machine }) {
  const uses = [
    [
      'the log: one disk that takes 1,000 MB/s',
      (perSecond * cost.walBytes) / 1e6 / LIMITS.logMbPerSecond,
    ],
    ['the wire: 10 Gbit/s', (perSecond * cost.bytes) / 1e6 / LIMITS.wireMbPerSecond],
    ['connections: 300 worker processes on one server', workers / LIMITS.workerProcesses],
    [
      `flushes: one log device at ${plain(machine.fsyncMs)} ms each, shared by 10 commits`,
      flushesPerSecond / ((1_000 / machine.fsyncMs) * 10),
    ],
  ];
  uses.sort((a, b) => b[1] - a[1]);
  return uses[0];
}

export async function scale(context) {
  const { entries, quick, size, machine, raw, table, fact, found: parts, say } = context;
  let cost = parts.cost?.raw.cost?.medians[entries.ours.label];
  if (!cost) {
    say('the part cost was not run; its figures for Holdfast are taken now.');
    cost = await costOf(context, entries.ours, size(100_000, 20_000));
  }
  if (!cost.postgresUs) return fact('scale', 'unknown: there is no /proc here');
  const perWorker = (BUSY * 1e6) / cost.workerUs;
  const rows = CORES.map((cores) => {
    const perSecond = (cores * BUSY * 1e6) / cost.postgresUs;
    const workers = Math.ceil(perSecond / perWorker);
    const flushesPerSecond = perSecond * cost.roundTrips;
    const [limit, used] = nearest({ perSecond, cost, workers, flushesPerSecond, machine });
    fact(`scale.${cores}_cores`, `${plain(perSecond)} jobs/s with ${workers} worker processes`);
    return {
      cores,
      perSecond,
      workers,
      logMb: (perSecond * cost.walBytes) / 1e6,
      limit: used > 1 ? `breaks: ${limit}` : `${limit}, ${(used * 100).toFixed(0)}% used`,
    };
  });
  raw('scale', { cost, rows });
  table({
    title: `On paper: ${plain(cost.postgresUs)} µs of Postgres, ${plain(cost.workerUs)} µs of a worker and ${plain(cost.walBytes)} bytes of log a job${quick ? ' (from a quick run)' : ''}`,
    columns: ["Postgres' cores", 'jobs/s drained', 'worker processes', 'log MB/s', 'nearest limit'],
    rows: rows.map((row) => [
      `${row.cores}`,
      plain(row.perSecond),
      `${row.workers}`,
      plain(row.logMb),
      row.limit,
    ]),
    note:
      `Postgres' cores are ${BUSY * 100}% busy and workers run elsewhere, each on a core of its own that is as busy. ` +
      'The assumption that breaks first is that Postgres gets faster with each core: beyond a few dozen backends ' +
      'that write, the log is inserted under locks, and every commit waits for one device. Enqueueing costs extra.',
  });
}
