/** Claiming as a worker's statement does, without the worker: every bucket, from its start. */

import { claim } from '../../src/claim/claim.js';
import type { ClaimedJob } from '../../src/claim/taking.js';
import { BUCKETS } from '../../src/job/key.js';
import type { Names } from '../../src/postgres/names.js';
import type { Executor } from '../../src/postgres/queryable.js';
import type { Place } from '../../src/settle/complete.js';
import { INBOX } from './database.js';

const EVERY_BUCKET = [1, 2, 3, 4].map((priority) => ({
  priority,
  from: 0,
  to: BUCKETS - 1,
  afterAt: '-infinity',
  afterPosition: 0,
}));

export interface ClaimOptions {
  readonly types: readonly string[];
  readonly limit?: number;
  readonly leaseMs?: number;
  readonly deadWorkers?: readonly string[];
  readonly names?: Names;
}

export async function claimAs(
  db: Executor,
  workerId: string,
  options: ClaimOptions,
): Promise<ClaimedJob[]> {
  const { jobs } = await claim(db, options.names ?? INBOX, {
    workerId,
    probes: EVERY_BUCKET,
    limit: options.limit ?? 1_000,
    leaseMs: options.leaseMs ?? 90_000,
    versions: Object.fromEntries(options.types.map((type) => [type, 1])),
    above: {},
    deadWorkers: options.deadWorkers ?? [],
    cursorLagMs: 2_000,
  });
  return jobs;
}

/** The claim of a job as its owner passes it to renew and to every settle. */
export function heldOf(job: ClaimedJob): { id: string; generation: number; place: Place } {
  return { id: job.id, generation: job.leaseGeneration, place: job };
}
