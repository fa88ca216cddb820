// Liveness: a fleet that is safe and stands still fails. All bounds are ratios to the undisturbed phase of the same
// run on the same machine, or multiples of the fleet's own times.
import { processes } from './processes.mjs';
import { pidOf } from './witness.mjs';

/** Of the undisturbed throughput, within this time after healing. */
const BACK_SHARE = 0.9;
/** Where producers themselves offer less, because the machine is busy, never less than this. */
const FLOOR_SHARE = 0.5;
const BACK_MS = 10_000;
const WINDOW_MS = 3_000;
/** No completion at all for so long, while faults go on and a worker is up. */
const STANDSTILL_MS = 20_000;
/** From a kill to the next claim of what it held, without the times in which the whole fleet stood still. */
const RECOVERY_MS = 20_000;

/**
 * `run` has the times of the phases in milliseconds of the database's clock, the drain rates, and the share of the
 * undisturbed one that counts as back: two undisturbed drains of a busy machine differ too.
 */
export function checkLiveness({ history, state, run }) {
  const violations = [];
  const times = state.jobs.flatMap(({ at }) => (at === null ? [] : [at])).sort((a, b) => a - b);
  const rate = (from, to) => (countBetween(times, from, to) * 1000) / Math.max(1, to - from);
  const before = rate(run.baseline.from, run.baseline.to);
  const during = rate(run.faults.from, run.faults.to);
  const arrivals = state.witness.flatMap(({ kind, at }) => (kind === 'enqueued' ? [at] : []));
  const after = bestWindow(times, arrivals, run.healedAt, before);
  if (after.rate < before * FLOOR_SHARE || after.rate < after.wanted * BACK_SHARE)
    violations.push(
      `after healing ${after.rate.toFixed(0)} jobs/s within ${BACK_MS / 1000} s, of ${after.wanted.toFixed(0)}; undisturbed were ${before.toFixed(0)}`,
    );
  if (run.drainAfter < run.drainBefore * run.drainShare)
    violations.push(
      `the backlog drained at ${run.drainAfter.toFixed(0)} jobs/s; undisturbed were ${run.drainBefore.toFixed(0)}`,
    );
  violations.push(...fallenBack(times, arrivals, run, before));
  const still = longestGap(times, workersUp(history, run), run.faults.from, run.faults.to);
  if (still > STANDSTILL_MS)
    violations.push(`the fleet stood still for ${(still / 1000).toFixed(1)} s`);
  const spans = recoveries(history, state.witness, run).map(({ job, from, turnAt, to }) => ({
    job,
    tookMs: to - from,
    workingMs: to - from - standstills(times, from, to),
    turnMs: to - turnAt - standstills(times, turnAt, to),
  }));
  for (const { job, tookMs, turnMs } of spans) {
    if (turnMs > RECOVERY_MS)
      violations.push(
        `job ${job} of a killed worker was claimed again only after ${(tookMs / 1000).toFixed(1)} s`,
      );
  }
  violations.push(...processes(history, run));
  return {
    violations,
    counts: {
      throughput: {
        before,
        during,
        after: after.rate,
        drainBefore: run.drainBefore,
        drainAfter: run.drainAfter,
      },
      longestStandstillMs: still,
      /** Who else used the processors: what is slow beside others need not be the engine's fault. */
      othersPercent: {
        before: percent(run.othersBefore),
        healed: percent(run.othersHealed),
        after: percent(run.othersAfter),
      },
      recoveries: spans.length,
      recoveryMs: quantiles(spans.map(({ tookMs }) => tookMs)),
      recoveryWhileOthersWorkedMs: quantiles(spans.map(({ workingMs }) => workingMs)),
      deadlocks: run.deadlocks,
      maxRssMb: run.maxRssMb,
      maxConnections: run.maxConnections,
    },
  };
}

const percent = (share) => (share === undefined ? null : Math.round(share * 100));

function quantiles(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share) =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null;
  return { p50: at(0.5), p99: at(0.99), max: sorted.at(-1) ?? null };
}

const between = (times, from, to) => times.filter((at) => at >= from && at < to);
const countBetween = (times, from, to) => between(times, from, to).length;

/** What was done in the window from here on, and what was wanted: the undisturbed rate, or what producers offered if less. */
function windowAt(times, arrivals, at, before) {
  const rateOf = (facts) => (countBetween(facts, at, at + WINDOW_MS) * 1000) / WINDOW_MS;
  const offered = rateOf(arrivals);
  // Producers that have stopped, or are not back themselves, are no measure.
  const wanted = offered < before * FLOOR_SHARE ? before : Math.min(before, offered);
  return { rate: rateOf(times), wanted };
}

/** The window, of those that end in time, in which most of what was wanted was done. */
function bestWindow(times, arrivals, healedAt, before) {
  let best = { rate: 0, wanted: before };
  for (let at = healedAt; at <= healedAt + BACK_MS - WINDOW_MS; at += 500) {
    const window = windowAt(times, arrivals, at, before);
    if (window.rate * best.wanted > best.rate * window.wanted) best = window;
  }
  return best;
}

/** A fleet that worked off what had gathered, and then stands still, is not back: the last window under load counts. */
function* fallenBack(times, arrivals, { healedAt, loadUntil }, before) {
  const at = loadUntil - WINDOW_MS;
  if (at < healedAt) return;
  const { rate, wanted } = windowAt(times, arrivals, at, before);
  if (rate < wanted * BACK_SHARE)
    yield `at the end of the load ${rate.toFixed(0)} jobs/s, of ${wanted.toFixed(0)}; undisturbed were ${before.toFixed(0)}`;
}

/** When at least one worker had started and not ended: on a busy machine a start takes seconds. One that is frozen is up. */
function workersUp(history, { wallOffset }) {
  const changes = [];
  const up = new Set();
  for (const { op, phase, pid, child, t } of history) {
    const before = up.size > 0;
    if (op === 'worker' && phase === 'ok') up.add(pid);
    else if (op === 'process' && phase === 'note') up.delete(child);
    else continue;
    if (before !== up.size > 0) changes.push(t + wallOffset);
  }
  const spans = [];
  for (let at = 0; at < changes.length; at += 2)
    spans.push({ from: changes[at], to: changes[at + 1] ?? Number.POSITIVE_INFINITY });
  return spans;
}

/** Without a completion, counting all the time in which a worker was up. */
function longestGap(times, spans, from, to) {
  let last = from;
  let longest = 0;
  for (const at of [...between(times, from, to), to]) {
    let upMs = 0;
    for (const span of spans)
      upMs += Math.max(0, Math.min(span.to, at) - Math.max(span.from, last));
    longest = Math.max(longest, upMs);
    last = at;
  }
  return longest;
}

/** How long in all nothing was completed for more than a second: the database was away. */
function standstills(times, from, to) {
  let last = from;
  let sum = 0;
  for (const at of [...between(times, from, to), to]) {
    if (at - last > 1_000) sum += at - last;
    last = at;
  }
  return sum;
}

/**
 * How long what a process held when it was killed waited for its next owner. Suspects, which crashed more than once,
 * take turns: one group at a time, whoever crashed first. `turnAt` is when the last one before it had its turn.
 */
function recoveries(history, witness, { wallOffset }) {
  const killedAt = new Map();
  for (const { op, signal, child, t } of history)
    if (op === 'signal' && signal === 'SIGKILL') killedAt.set(child, t + wallOffset);
  const lives = new Map();
  const took = [];
  const turns = [];
  for (const { kind, job, queue, at, owner, crashed, outcome } of witness) {
    if (!lives.has(job)) lives.set(job, { crashes: 0, crashedAt: null, killedAt: null });
    const life = lives.get(job);
    if (kind === 'claimed') {
      const { crashes, crashedAt } = life;
      if (crashes > 1) turns.push({ queue, crashedAt, at });
      if (at >= (life.killedAt ?? Number.POSITIVE_INFINITY))
        took.push({ job, queue, crashes, crashedAt, from: life.killedAt, to: at });
      life.killedAt = killedAt.get(pidOf(owner)) ?? null;
    }
    // What was handed back, or taken away, before the kill was not held then.
    else if (kind !== 'pending' || !crashed || at < life.killedAt) life.killedAt = null;
    if (crashed) Object.assign(life, { crashes: life.crashes + 1, crashedAt: at });
    // It has shown that it can end.
    else if (outcome) life.crashes = 0;
  }
  return took.map((one) => ({ ...one, turnAt: turnBefore(one, turns) }));
}

function turnBefore({ queue, crashes, crashedAt, from, to }, turns) {
  let turnAt = from;
  if (crashes < 2) return turnAt;
  for (const turn of turns) {
    if (turn.queue === queue && turn.crashedAt < crashedAt && turn.at < to)
      turnAt = Math.max(turnAt, turn.at);
  }
  return turnAt;
}
