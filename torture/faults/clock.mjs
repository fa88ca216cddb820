// Wrong clocks: processes come back with a wall clock that is hours off and jumps about. The database's clock rules,
// so nothing but the times in logs may change. Kills keep leases changing hands meanwhile.
const HOUR_MS = 3_600_000;
const SHIFTS = [-26 * HOUR_MS, -HOUR_MS, -20_000, 20_000, HOUR_MS, 26 * HOUR_MS];

/** A process ends and comes back with another clock. Producers finish what they have begun. */
function shifted(kind, signal) {
  return {
    name: `${kind}-with-wrong-clock`,
    async strike(world, random) {
      const slot = random.pick(world.fleet[`${kind}s`].filter(({ runs }) => runs));
      if (!slot) return { hit: false };
      const clockMs = random.pick(SHIFTS);
      slot.config = { ...slot.config, clockMs };
      return { hit: slot.signal(signal), clockMs };
    },
  };
}

export const clockFaults = [
  shifted('worker', 'SIGKILL'),
  shifted('worker', 'SIGTERM'),
  shifted('producer', 'SIGKILL'),
];
