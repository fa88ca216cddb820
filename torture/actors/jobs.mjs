// The jobs of the torture, the same for producers and workers. `inbox` is read by time, `lines` by key.

export const KEYED = 'lines';

/** Short, so that a run sees many attempts. */
const retry = { base: '100ms', cap: '300ms' };
const keyed = { queue: KEYED, retry, maxAttempts: 20 };
/** Kills are not the job's fault: no honest job runs out of attempts by its own failures. */
const timed = { retry, maxAttempts: 20 };

/** In the whole fleet, whatever dies. The checker counts them by the witness. */
export const LIMITS = {
  capped: { concurrency: 4 },
  paced: { rate: { limit: 40, per: '1s', burst: 4 } },
};

/** More queues beside the two, all read by time. */
export const sideQueues = (count = 0) => Array.from({ length: count }, (_, n) => `side_${n + 1}`);

/**
 * @param {typeof import('../../packages/holdfast/dist/index.js').job} job
 * @param {object} build
 * @param {number} [build.payVersion] the newest version of `pay` that this build knows
 * @param {boolean} [build.limits] whether it has types with limits; a fleet without any pays nothing for them
 * @param {number} [build.sides] so many more queues, with a type each
 * @param {number} [build.flows] the version with which workflows begin; without it there are none
 * @param {typeof import('../../packages/holdfast/dist/index.js').workflow} [workflow]
 */
export function definitions(
  job,
  { payVersion = 1, limits = false, sides = 0, flows = 0 },
  workflow,
) {
  const upgrade = payVersion > 1 ? { 1: (payload) => ({ ...payload, currency: 'EUR' }) } : {};
  return {
    /** One effect, in the transaction that completes the job. */
    pay: job('pay', { ...timed, version: payVersion, upgrade }),
    /** An effect elsewhere, under `once`. */
    mail: job('mail', timed),
    /** Runs for long, and writes to the register under its token. */
    long: job('long', timed),
    /** Has children: half of them with the completion, half in a transaction. */
    parent: job('parent', timed),
    child: job('child', timed),
    /** Fails before it succeeds, or is given up. */
    flaky: job('flaky', timed),
    /** Takes its process along. */
    crash: job('crash', { ...timed, maxAttempts: 1 }),
    step: job('step', keyed),
    guarded: job('guarded', keyed),
    ...(limits && {
      capped: job('capped', { ...timed, limit: LIMITS.capped }),
      paced: job('paced', { ...timed, limit: LIMITS.paced }),
      /** What stands before all others while it is paused, or at a limit of an operator. */
      block: job('block', { ...timed, priority: 1 }),
    }),
    ...(flows > 0 && {
      /** A run, and what it has children of. */
      checkout: workflow('checkout', { ...timed, version: flows }),
      parcel: job('parcel', timed),
    }),
    ...Object.fromEntries(
      sideQueues(sides).map((queue) => [queue, job(queue, { ...timed, queue })]),
    ),
  };
}
