// Limits: never more of a type at once, and never more starts in a time, than its limit allows. By the witness, which sees
// every claim and every end under the row's lock; what a frozen process still does when its job is elsewhere does not
// count. The permits of a worker are free when it is declared dead, some time before its jobs are recovered: so what a
// process holds that has ended, or got no answer from the database for a while, does not count either.
import { LIMITS } from '../actors/jobs.mjs';
import { groupBy } from './acceptance.mjs';
import { pidOf } from './witness.mjs';

/** Claims are witnessed some time after the moment that the limit counts them at. */
const LATE_MS = 1_000;
const WINDOW_MS = 3_000;
/** Workers ask every 0.4 s. Nobody is declared dead who was silent for less. */
const SILENT_MS = 1_500;

export function checkLimits({ history, state, run }) {
  const types = new Map(state.jobs.map(({ id, type }) => [id, type]));
  const of = (type) => state.witness.filter(({ job }) => types.get(job) === type);
  const { concurrency } = LIMITS.capped;
  const most = mostAtOnce(of('capped'), silenceOf(history, run));
  const violations = [];
  if (most > concurrency)
    violations.push(`${most} jobs of the type capped ran at once, of ${concurrency}`);
  const { limit, burst } = LIMITS.paced.rate;
  const allowed = (limit * (WINDOW_MS + LATE_MS)) / 1_000 + burst;
  const starts = of('paced').flatMap(({ kind, at }) => (kind === 'claimed' ? [at] : []));
  const fullest = mostIn(starts, WINDOW_MS);
  if (fullest > allowed)
    violations.push(`${fullest} jobs of the type paced started in 3 s, of ${allowed}`);
  return { violations, counts: { mostCappedAtOnce: most, mostPacedIn3s: fullest } };
}

/**
 * A claim sees every end that was committed before it, and its number in the witness is higher than theirs: so this counts
 * too few rather than too many.
 */
function mostAtOnce(changes, isSilent) {
  const running = new Map();
  let most = 0;
  for (const { kind, job, owner, at } of changes) {
    if (kind === 'claimed') running.set(job, owner);
    else if (kind !== 'renewed') running.delete(job);
    if (running.size <= most) continue;
    const counted = [...running.values()].filter((holder) => !isSilent(holder, at));
    most = Math.max(most, counted.length);
  }
  return most;
}

/** Whether the process of a worker had ended by then, or had been without an answer for a while. */
function silenceOf(history, { wallOffset }) {
  const ends = new Map();
  for (const { op, phase, child, t } of history)
    if (op === 'process' && phase === 'note') ends.set(child, t);
  const probes = groupBy(
    history.filter(({ op }) => op === 'probe'),
    ({ pid }) => pid,
  );
  return (owner, wallMs) => {
    const at = wallMs - wallOffset;
    const pid = pidOf(owner);
    if (ends.get(pid) <= at) return true;
    const asked = (probes.get(pid) ?? []).filter(({ t }) => t <= at);
    // One that has not asked yet has just started.
    return asked.length > 0 && !asked.some(({ phase, t }) => phase === 'ok' && t > at - SILENT_MS);
  };
}

function mostIn(times, windowMs) {
  let most = 0;
  let first = 0;
  for (const [n, at] of times.entries()) {
    while (at - times[first] >= windowMs) first++;
    most = Math.max(most, n - first + 1);
  }
  return most;
}
