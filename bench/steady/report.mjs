// What the steady load's cells say: a figure for each goal, a line for each system, and tables.
// A peer that does not hold a rate is told as such and sets no goal there.
import { measured, median, plain } from '../statistics.mjs';

const GOALS = [
  { value: 'p50', unit: 'ms' },
  { value: 'p99', unit: 'ms' },
  { value: 'postgresUs', unit: 'µs', name: 'cpu_per_job' },
];

export const nameOf = ({ kind, workers, rate }) => `${kind.replace('-', '_')}_${workers}w_${rate}`;

const late = (value) => value === Number.POSITIVE_INFINITY;
const text = (value, unit) =>
  late(value) ? 'never' : value === null ? 'unknown' : `${plain(value)} ${unit}`;
const spread = (values) => {
  const known = values.filter((value) => value !== null);
  return known.some(late) ? text(median(known), '') : measured(known);
};

/** So much of the machine for other processes, and latencies are no longer those of the system. */
const QUIET = 0.15;
const quietOf = (rounds) => rounds.filter(({ othersShare }) => othersShare <= QUIET);

/**
 * Medians of the rounds; a rate is held when most rounds held it. Rounds that other processes of
 * the machine disturbed are left out if there are others.
 */
function summary(all) {
  const quiet = quietOf(all);
  const rounds = quiet.length > 0 ? quiet : all;
  const of = (name) => rounds.map((round) => round[name]);
  const middle = (name) => (of(name).includes(null) ? null : median(of(name)));
  return {
    p50: middle('p50'),
    p99: middle('p99'),
    postgresUs: middle('postgresUs'),
    perSecond: middle('perSecond'),
    missing: Math.max(...all.map(({ missing }) => missing)),
    twice: Math.max(...all.map(({ twice }) => twice)),
    disturbed: quiet.length === 0,
    held: of('held').filter(Boolean).length * 2 > rounds.length,
  };
}

export function tell(say, label, { rate }, round) {
  const { p50, p99, postgresUs, workerUs, perSecond, missing, held, othersShare } = round;
  say(
    `${label}: p50 ${text(p50, 'ms')}, p99 ${text(p99, 'ms')}, ${text(postgresUs, 'µs')} of Postgres ` +
      `and ${text(workerUs, 'µs')} of the workers a job` +
      `${held ? '' : `; NOT HELD: ${plain(perSecond)} of ${rate} jobs/s, ${missing} not started`}` +
      `${othersShare > QUIET ? `; DISTURBED: others used ${(othersShare * 100).toFixed(0)}% of the machine` : ''}`,
  );
}

/** Holdfast beside the best peer that holds the rate, value by value. */
function goals({ figure, fact }, cell, found) {
  const ours = found.find(({ entry }) => entry.ours);
  if (!ours) return;
  const name = `steady.${nameOf(cell)}`;
  figure(`${name}_not_started`, `${ours.missing}`, '0', ours.missing === 0);
  if (ours.twice > 0) fact(`${name}_started_twice`, `${ours.twice}`);
  const peers = found.filter(({ entry, held }) => !entry.ours && held);
  for (const { value, unit, name: called = value } of GOALS) {
    const [best] = peers.filter((peer) => peer[value] !== null).sort((a, b) => a[value] - b[value]);
    // What other processes disturbed says little, met or short.
    const noisy = ours.disturbed || best?.disturbed;
    const own = `${text(ours[value], unit)}${noisy ? ', disturbed' : ''}`;
    if (best && ours[value] !== null)
      figure(
        `${name}_${called}`,
        own,
        `<= ${text(best[value], unit)} of ${best.entry.label}`,
        ours[value] <= best[value],
      );
    else if (found.length > 1 && ours[value] !== null)
      figure(`${name}_${called}`, own, 'hold the rate; no peer does', ours.held);
    else fact(`${name}_${called}`, own);
  }
}

export function report(context, cell, results) {
  const found = [...results].map(([entry, rounds]) => ({ entry, ...summary(rounds) }));
  goals(context, cell, found);
  const disturbed = found.filter((one) => one.disturbed).map(({ entry }) => entry.label);
  if (disturbed.length > 0)
    context.fact(
      `steady.${nameOf(cell)}_disturbed`,
      `${disturbed.join(', ')}: other processes used more than ${QUIET * 100}% of the machine in every round`,
    );
  context.raw(
    nameOf(cell),
    Object.fromEntries([...results].map(([entry, rounds]) => [entry.label, rounds])),
  );
  return found.map(({ entry, held, perSecond, disturbed: noisy }) => {
    const values = (name) => spread(results.get(entry).map((round) => round[name]));
    return [
      plain(cell.rate),
      entry.label,
      values('p50'),
      values('p99'),
      values('postgresUs'),
      values('workerUs'),
      [held ? '' : `**not held**: ${plain(perSecond)} jobs/s`, noisy ? 'disturbed' : '']
        .filter(Boolean)
        .join(', '),
    ];
  });
}

/** Bars of one cell that speaks for the part. */
export function charts({ chart }, cell, results) {
  const found = [...results].map(([entry, rounds]) => ({ entry, ...summary(rounds) }));
  const bars = (name) =>
    found
      .filter((one) => one.held && one[name] !== null)
      .map(({ entry: { label, ours }, [name]: value }) => ({ label, ours, value }));
  const load = `at ${plain(cell.rate)} jobs/s`;
  chart({
    file: 'steady-latency',
    title: `Steady load, p50 from enqueue to start ${load}, ms (shorter is better)`,
    bars: bars('p50'),
  });
  chart({
    file: 'steady-cost',
    title: `Steady load, Postgres' processor time a job ${load}, µs (shorter is better)`,
    bars: bars('postgresUs'),
  });
}

export const COLUMNS = [
  'jobs/s',
  '',
  'p50 ms',
  'p99 ms',
  'Postgres µs a job',
  'workers µs a job',
  '',
];
