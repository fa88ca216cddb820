// Nobody pays for others: an attempt is spent only by a job's own failure, or by a crash that happened while it ran
// alone; honest jobs do not become dead letters. And nothing is stuck or left behind.

/** A job that means to fail for good, or to take its process along. */
const DOOMED = ({ type, payload }) => type === 'crash' || (type === 'flaky' && payload.giveUp);

export function checkBystanders({ state, run }) {
  const violations = [];
  let charged = 0;
  for (const job of state.jobs) {
    if (DOOMED(job)) continue;
    if (job.status === 'dead_letter')
      violations.push(`job ${job.id} (${job.type}) became a dead letter`);
    const spent = (job.history ?? []).filter(
      ({ outcome, spent }) => outcome === 'vanished' && spent,
    );
    if (spent.length === 0) continue;
    charged++;
    violations.push(
      `job ${job.id} (${job.type}) paid ${spent.length} attempts for crashes of its worker`,
    );
  }
  for (const job of state.jobs) {
    if (job.type === 'flaky' && job.payload.giveUp && job.status !== 'dead_letter')
      violations.push(`job ${job.id} gave up, and is ${job.status}`);
  }
  return { violations: [...violations, ...stuck(state, run)], counts: { charged } };
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
  const ids = new Set(state.jobs.map(({ id }) => id));
  for (const { key, job } of state.idempotency) {
    if (!ids.has(job))
      yield `the idempotency key ${key} points to job ${job}, which does not exist`;
  }
}
