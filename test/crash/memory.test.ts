/** A worker that has run for long is no bigger than one that has just warmed up. */
import { expect } from 'vitest';
import { startWorker } from '../support/child.js';
import { ground, jobs } from '../support/ground.js';
import { long, longTest } from '../support/long.js';
import { until } from '../support/until.js';

/** With five of 5,000, a leak of 140 bytes a job is found; with 25 of 8,000, one of 12. */
const [ROUND, ROUNDS] = long([5_000, 5], [8_000, 25]);
const MIB = 1024 * 1024;

longTest(
  'a worker process does not grow with the jobs that it has run',
  async () => {
    const db = await ground();
    const worker = startWorker(db.url, { poll: '20ms', concurrency: 50 }, ['--expose-gc']);
    const heap: number[] = [];
    for (let round = 1; round <= ROUNDS; round++) {
      await db.hf.enqueueMany(Array.from({ length: ROUND }, () => jobs.noop.item({})));
      await until('the round is settled', async () => {
        return (await worker.ask('stats')).stats?.completed === round * ROUND;
      });
      heap.push((await worker.ask('memory')).heapUsed as number);
    }
    const grown = (heap.at(-1) as number) - (heap[1] as number);
    expect(grown, `heapUsed after each round: ${heap.join(', ')}`).toBeLessThan(2 * MIB);
  },
  180_000,
);
