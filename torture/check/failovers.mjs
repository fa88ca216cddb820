// What an asynchronous failover explains. The nemesis waits until the standby has everything that was acknowledged before
// `heldAt`, holds it back, and kills the primary. So what a process learnt between these two moments may be gone,
// and only that.

/** An answer that was on its way when the old primary died. */
const LATE_MS = 2_000;
/** A claim that was lost is believed in for no longer than its lease. */
const LEASE_MS = 6_000;

const losses = (history, lateMs) => {
  const spans = history
    .filter(({ op, lossy }) => op === 'failover' && lossy)
    .map(({ heldAt, t }) => ({ from: heldAt, to: t + lateMs }));
  return (t) => spans.some(({ from, to }) => t > from && t < to);
};

/** @returns {(t: number) => boolean} whether what was learnt then may have been lost */
export const lossesOf = (history) => losses(history, LATE_MS);

/** @returns {(t: number) => boolean} whether the claim of what began to run then may have been lost */
export const claimLossesOf = (history) => losses(history, LEASE_MS);
