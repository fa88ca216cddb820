// Randomness from a seed: the same seed gives the same schedule of faults and the same choices of each actor.
// Mulberry32: small, fast, and good enough to choose what to break next.

/** @param {string | number} seed */
export function randomOf(seed) {
  let state = 2166136261;
  for (const letter of String(seed)) state = Math.imul(state ^ letter.charCodeAt(0), 16777619);
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    chance: (/** @type {number} */ share) => next() < share,
    /** From `min` to `max`, both included. */
    integer: (min, max) => min + Math.floor(next() * (max - min + 1)),
    pick: (items) => items[Math.floor(next() * items.length)],
  };
}
