/**
 * The figures of a scrape: how much waits, runs and is dead in each queue, and who is alive. Nothing is
 * asked here that the status does not ask as well, so that a graph and the command line agree: what runs is
 * exact, what waits in a large queue is an estimate. Ages are differences of the database's own times.
 */
import type { Executor } from '../postgres/queryable.js';
import { countByStatus } from './counts.js';
import { listQueues } from './queues.js';
import { listWorkers } from './workers.js';

export interface QueueGauges {
  readonly queue: string;
  readonly paused: boolean;
  /** Null before the first round. */
  readonly maintenanceAgeMs: number | null;
  readonly pending: number;
  /** Null when too many jobs wait for their time to count them. */
  readonly due: number | null;
  readonly processing: number;
  /** In processing, with a lease that is over. */
  readonly expired: number;
  readonly deadLetters: number;
  /** How long the oldest due job has been due; 0 when none waits. */
  readonly oldestPendingMs: number;
  /** `pending`, and `deadLetters` if there are many, are estimates. */
  readonly estimated: boolean;
}

export interface Gauges {
  readonly queues: readonly QueueGauges[];
  readonly workers: { readonly alive: number; readonly draining: number };
  /** Of the worker that has been silent for longest and is not dead; null when there is none. */
  readonly oldestHeartbeatMs: number | null;
}

function ageMs(at: string, since: string | null): number | null {
  return since === null ? null : Math.max(0, Date.parse(at) - Date.parse(since));
}

/** One question after the other, on one connection: a scrape is in no hurry. */
export async function readGauges(db: Executor, schema: string): Promise<Gauges> {
  const queues: QueueGauges[] = [];
  for (const { name: queue, paused, maintainedAt } of await listQueues(db, schema)) {
    const counts = await countByStatus(db, { schema, queue });
    const { pending, scheduled, processing, expired, deadLetter, oldestDue, size } = counts;
    queues.push({
      queue,
      paused,
      maintenanceAgeMs: ageMs(size.at, maintainedAt),
      pending,
      due: scheduled === null ? null : pending - scheduled,
      processing,
      expired,
      deadLetters: deadLetter,
      oldestPendingMs: ageMs(size.at, oldestDue) ?? 0,
      estimated: counts.approximate,
    });
  }
  const workers = await listWorkers(db, schema);
  const having = (status: string) => workers.filter((worker) => worker.status === status).length;
  const silent = workers.map((worker) => worker.silentMs);
  return {
    queues,
    workers: { alive: having('alive'), draining: having('draining') },
    oldestHeartbeatMs: silent.length === 0 ? null : Math.max(...silent),
  };
}
