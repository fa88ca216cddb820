// Nobody pays for others: an attempt is spent only by a job's own failure, or by a crash that happened while it ran
// alone; honest jobs do not become dead letters. And nothing is stuck or left behind.
import { groupBy } from './acceptance.mjs';
import { pidOf } from './witness.mjs';

/** What took its process along so often runs alone. */
const ALONE_FROM = 4;

/** A job that means to fail for good, or to take its process along. */
const DOOMED = ({ type, payload }) =>
  type === 'crash' ||
  (type === 'flaky' && payload.giveUp) ||
  (type === 'checkout' && payload.fails);

export function checkBystanders({ history, state, run }) {
  const violations = [];
  const failures = failuresOf(history);
  const wasAlone = aloneIn(history, state.witness, run);
  let charged = 0;
  let chargedAlone = 0;
  for (const job of state.jobs) {
    if (DOOMED(job)) continue;
    if (job.status === 'dead_letter')
      violations.push(`job ${job.id} (${job.type}) became a dead letter`);
    const of = (what) => (job.history ?? []).filter(what).length;
    const own = failures.get(job.id) ?? 0;
    // A parent whose children could not be written has failed without its handler.
    const failed = job.type === 'parent' ? Math.max(own, of(isFailure)) : own;
    const spent = Math.max(of(isCharge), job.attempts - 1 - failed);
    const alone = of((entry) => isCharge(entry) && wasAlone(job.id, entry.worker));
    chargedAlone += alone;
    if (spent <= alone) continue;
    charged++;
    violations.push(
      `job ${job.id} (${job.type}) paid ${spent - alone} attempts for crashes of its worker`,
    );
  }
  for (const job of state.jobs) {
    if (job.type === 'flaky' && job.payload.giveUp && job.status !== 'dead_letter')
      violations.push(`job ${job.id} gave up, and is ${job.status}`);
  }
  return { violations: [...violations, ...stuck(state, run)], counts: { charged, chargedAlone } };
}

const isFailure = ({ outcome }) => outcome === 'failed';
const isCharge = ({ outcome, spent }) => outcome === 'vanished' && spent;

/** How often the handler of each job threw, by the histories: the engine's own books are not asked. */
function failuresOf(history) {
  const failures = new Map();
  for (const { op, phase, job } of history)
    if (op === 'run' && phase === 'fail') failures.set(job, (failures.get(job) ?? 0) + 1);
  return failures;
}

/**
 * Whether a job was the only one that ran in its process when the crash was written down, after it had crashed often.
 * Then it pays, by contract: the nemesis that kills such a process cannot be told from a job that kills it.
 */
function aloneIn(history, witness, { wallOffset }) {
  const runs = groupBy(runsOf(history), ({ pid }) => pid);
  const crashes = groupBy(
    witness.filter(({ crashed }) => crashed),
    ({ job }) => job,
  );
  return (job, worker) => {
    const all = crashes.get(job) ?? [];
    const nth = all.findIndex(({ was_owner }) => was_owner === worker);
    if (nth < ALONE_FROM) return false;
    const at = all[nth].at - wallOffset;
    const beside = (runs.get(pidOf(worker)) ?? []).filter(
      (other) => other.job !== job && other.from <= at && other.to > at,
    );
    return beside.length === 0;
  };
}

/** When which handler ran in which process. */
function runsOf(history) {
  const runs = new Map();
  for (const { op, phase, pid, job, gen, t } of history) {
    if (op !== 'run') continue;
    const name = `${pid}/${job}/${gen}`;
    if (phase === 'invoke') runs.set(name, { pid, job, from: t, to: Number.POSITIVE_INFINITY });
    else if (runs.has(name)) runs.get(name).to = t;
  }
  return [...runs.values()];
}

function* stuck(state, { left = [] }) {
  for (const job of left.slice(0, 20)) {
    yield `job ${job.id} (${job.type}, ${job.queue}, ${job.status}, owner ${job.claimed_by}, key ${job.partition_key}, crashes ${job.crashes}) is stuck`;
  }
  if (left.length > 20) yield `${left.length} jobs are stuck in all`;
  const alive = new Set(
    state.workers.filter(({ status }) => status !== 'dead').map(({ id }) => id),
  );
  for (const { worker, jobs } of state.claims) {
    if (!alive.has(worker))
      yield `a claim of ${jobs} jobs of ${worker}, which is gone, was left behind`;
  }
  for (const { id, owner, status } of state.jobs) {
    if (status === 'processing') yield `job ${id} is still leased to ${owner}`;
  }
  const ids = new Set(state.jobs.map(({ id }) => id));
  for (const { job, name } of state.markers) {
    if (!ids.has(job)) yield `the marker ${name} is of job ${job}, which does not exist`;
  }
  for (const { key, job } of state.idempotency) {
    if (!ids.has(job))
      yield `the idempotency key ${key} points to job ${job}, which does not exist`;
  }
}
