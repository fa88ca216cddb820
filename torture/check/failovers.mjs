// What an asynchronous failover explains: the standby had not heard of the last moments before it. Whatever a process
// learnt in those moments may be gone, and only that.

/** The standby is held back for less than a second; the rest is for a machine that is busy. */
const UNHEARD_MS = 10_000;
/** An answer that was on its way when the old primary died. */
const LATE_MS = 2_000;

/** @returns {(t: number) => boolean} whether what was learnt then may have been lost */
export function lossesOf(history) {
  const at = history.filter(({ op, lossy }) => op === 'failover' && lossy).map(({ t }) => t);
  return (t) => at.some((failover) => t > failover - UNHEARD_MS && t < failover + LATE_MS);
}
