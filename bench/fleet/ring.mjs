// How many keys change their owner when a worker joins, and how even the shares are.
import { ringOwners } from '../../dist/fleet/ring.js';

const moved = (before, after) => before.filter((owner, bucket) => owner !== after[bucket]).length;

export function ring({ quick, figure, say }) {
  let [worstMove, busiest] = [0, 0];
  const fleets = quick ? 20 : 200;
  for (let fleet = 0; fleet < fleets; fleet++) {
    const ids = Array.from({ length: 17 }, () => `host-${Math.random().toString(36).slice(2, 10)}`);
    for (let n = 1; n <= 16; n++) {
      const before = ringOwners(ids.slice(0, n));
      const after = ringOwners(ids.slice(0, n + 1));
      worstMove = Math.max(worstMove, (moved(before, after) / 1024) * (n + 1));
      const counts = new Map();
      for (const owner of before) counts.set(owner, (counts.get(owner) ?? 0) + 1);
      busiest = Math.max(busiest, Math.max(...counts.values()) / (1024 / n));
    }
  }
  say(`${fleets} fleets of random workers, N = 1 … 16`);
  figure(
    'fleet.moved_keys_on_join',
    `${worstMove.toFixed(3)}/(N+1)`,
    '<= 1.25/(N+1)',
    worstMove <= 1.25,
  );
  figure('fleet.busiest_over_mean', busiest.toFixed(3), '<= 1.25', busiest <= 1.25);
}
