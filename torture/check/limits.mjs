// Limits: never more of a type at once, and never more starts in a time, than its limit allows. By the witness, which sees
// every claim and every end under the row's lock; what a frozen process still does when its job is elsewhere does not
// count.
import { LIMITS } from '../actors/jobs.mjs';

/** Claims are witnessed some time after the moment that the limit counts them at. */
const LATE_MS = 1_000;
const WINDOW_MS = 3_000;

export function checkLimits({ state }) {
  const types = new Map(state.jobs.map(({ id, type }) => [id, type]));
  const of = (type) => state.witness.filter(({ job }) => types.get(job) === type);
  const { concurrency } = LIMITS.capped;
  const most = mostAtOnce(of('capped'));
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
function mostAtOnce(changes) {
  const running = new Set();
  let most = 0;
  for (const { kind, job } of changes) {
    if (kind === 'claimed') running.add(job);
    else if (kind !== 'renewed') running.delete(job);
    most = Math.max(most, running.size);
  }
  return most;
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
