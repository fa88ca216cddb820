/** Jobs that die, and the jobs that tell of it. */
import { expect } from 'vitest';
import type { DeadJob, Job, Worker } from '../../packages/holdfast/src/index.js';
import { fail } from '../../packages/holdfast/src/settle/fail.js';
import { claimAs } from './claiming.js';
import { INBOX, type TestGround } from './database.js';
import { until } from './until.js';
import type { testWorkers } from './workers.js';

export interface Charge {
  readonly cents: number;
}

export interface Told {
  readonly id: string;
  readonly type: string;
  readonly key: string;
  readonly payload: DeadJob<Charge>;
  readonly headers: Record<string, string>;
  readonly priority: number;
  readonly most: number;
}

export function tellers(
  db: Pick<TestGround, 'hf' | 'rows' | 'engine'>,
  start: ReturnType<typeof testWorkers>,
) {
  return {
    told: (queue = 'inbox') =>
      db.rows<Told>(
        `SELECT id, type, partition_key AS key, payload, headers, priority, max_attempts AS most FROM holdfast.${queue}
         WHERE headers ? 'holdfast_dead_letter' ORDER BY position`,
      ),
    dead: (id: string) =>
      until('it is a dead letter', async () => {
        const found = (await db.hf.job(id)) as Job;
        return found.status === 'dead_letter' ? found : null;
      }),
    /** As a worker of these types says when it starts. */
    async declared(...types: Parameters<Worker['handle']>[0][]): Promise<void> {
      const { worker, events, stop } = start(db.hf, (one) =>
        types.reduce((on, type) => on.handle(type as never, () => undefined), one),
      );
      await until('the worker has started', () => events.some(({ kind }) => kind === 'started'));
      await stop();
      expect(worker.stats.claimed).toBe(0);
    },
    /** Jobs of the type fail by the statement of an owner, without a worker. */
    async die(type: string, queue = 'inbox') {
      const names = { ...INBOX, queue };
      const jobs = await claimAs(db.engine, 'w', { types: [type], names });
      const words = { error: 'Error: no', summary: 'Error: no' };
      return fail(
        db.engine,
        names,
        'w',
        jobs.map(({ id, leaseGeneration: generation }) => ({
          ...{ id, generation, delayMs: 0 },
          ...words,
        })),
      );
    },
  };
}
