// Steady load: what most fleets meet. Worker processes of 16 handlers of one millisecond, and a
// producer that offers jobs at a fixed rate to a nearly empty queue. Latency from enqueue to the
// handler's start, and Postgres' processor time a job, beside the peers in the configuration of an
// ordinary user. Once with jobs read by time, once with order per key over 1,000 keys.
import { openDatabases } from '../databases.mjs';
import { rounds } from '../rounds.mjs';
import { measureCell } from '../steady/cell.mjs';
import { COLUMNS, charts, nameOf, report, tell } from '../steady/report.mjs';

const RATES = [50, 400, 1_200, 3_000];
const KINDS = {
  'by-time': { keys: 0, says: 'by time' },
  'by-key': { keys: 1_000, says: 'order per key, 1,000 keys' },
};
const ROUNDS = 3;
const CHARTED = 'by_time_2w_400';

function kindsOf({ only }) {
  if (!only) return Object.entries(KINDS);
  if (!KINDS[only])
    throw new Error(`there is no kind called ${only}; there are ${Object.keys(KINDS).join(', ')}`);
  return [[only, KINDS[only]]];
}

function contestantsOf(entries, { systems }) {
  const unknown = (systems ?? []).filter((name) => !entries.some(({ label }) => label === name));
  if (unknown.length > 0)
    throw new Error(
      `steady does not know ${unknown.join(', ')}; it knows ${entries.map(({ label }) => label).join(', ')}`,
    );
  return entries.filter(({ label }) => !systems || systems.includes(label));
}

/** The same cell for every system in turns; a round that breaks is the end of the part. */
async function measured(context, contestants, cell) {
  const { options, quick, say } = context;
  say(`— ${nameOf(cell)}`);
  const byLabel = await rounds(
    contestants,
    options.rounds ?? (quick ? 1 : ROUNDS),
    async (entry) => {
      const round = await measureCell(context, entry, cell);
      tell(say, entry.label, cell, round);
      return round;
    },
  );
  return new Map(contestants.map((entry) => [entry, byLabel.get(entry.label)]));
}

export async function steady(context) {
  const { stage, entries, options, span, table, url } = context;
  const contestants = contestantsOf(entries.steady, options);
  const databases = openDatabases(stage.admin, url);
  // Processes are young here, as after a deploy; how they are later, `--warm` shows.
  const warmMs = options.warm ? options.warm * 1_000 : span(2_000, 1_500);
  const times = { warmMs, ms: span(7_000, 4_000) };
  const fleets = options.workers ?? (options.whole ? [1, 2, 4] : [2]);
  try {
    for (const [kind, { keys, says }] of kindsOf(options)) {
      for (const workers of fleets) {
        const rows = [];
        for (const rate of options.rates ?? RATES) {
          const cell = { kind, keys, workers, rate, ...times };
          const results = await measured({ ...context, databases }, contestants, cell);
          rows.push(...report(context, cell, results));
          if (nameOf(cell) === CHARTED) charts(context, cell, results);
        }
        table({
          title: `Steady load, ${says}: ${workers} worker process${workers > 1 ? 'es' : ''} × 16 handlers of 1 ms`,
          columns: COLUMNS,
          rows,
        });
      }
    }
  } finally {
    await databases.close();
  }
}
