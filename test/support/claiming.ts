/** Claiming as a worker's statement does, without the worker: every priority, from the front. */
import { type ClaimedByTime, type ClaimRequest, claim } from '../../src/claim/claim.js';
import { type ClaimedSuspects, claimSuspects } from '../../src/claim/claim-suspects.js';
import type { ClaimedJob, ClaimTerms } from '../../src/claim/taking.js';
import type { Names } from '../../src/postgres/names.js';
import type { Executor } from '../../src/postgres/queryable.js';
import { INBOX } from './database.js';

export const FRONT = [1, 2, 3, 4].map((priority) => ({
  priority,
  afterAt: '-infinity',
  afterPosition: 0,
}));

let claims = 0;

/** What a claim of any kind needs. Every claim has a number of its own. */
export function terms(workerId: string): ClaimTerms {
  claims++;
  return {
    ...{ workerId, number: claims, finished: [], leaseMs: 90_000, limit: 1_000 },
    versions: { step: 1 },
  };
}

export type TimeOptions = Partial<ClaimRequest> & { readonly names?: Names };

export function claimByTime(
  db: Executor,
  workerId: string,
  { names = INBOX, ...options }: TimeOptions = {},
): Promise<ClaimedByTime> {
  const request = { ...terms(workerId), cursors: FRONT, lagMs: 250, ask: false, ...options };
  return claim(db, names, request);
}

export type SuspectOptions = Partial<ClaimTerms> & { readonly names?: Names };

export function claimSuspected(
  db: Executor,
  workerId: string,
  { names = INBOX, ...options }: SuspectOptions = {},
): Promise<ClaimedSuspects> {
  return claimSuspects(db, names, { ...terms(workerId), ...options });
}

export interface ClaimOptions {
  readonly types: readonly string[];
  readonly limit?: number;
  readonly leaseMs?: number;
  readonly names?: Names;
}

export async function claimAs(
  db: Executor,
  workerId: string,
  { types, ...options }: ClaimOptions,
): Promise<ClaimedJob[]> {
  const versions = Object.fromEntries(types.map((type) => [type, 1]));
  return (await claimByTime(db, workerId, { versions, ...options })).jobs;
}

/** The claim of a job as its owner passes it to renew and to every settle. */
export function heldOf(job: ClaimedJob): { id: string; generation: number } {
  return { id: job.id, generation: job.leaseGeneration };
}

/** The numbers that the jobs of a test carry, in the order in which they came. */
export function numbers({ jobs }: { readonly jobs: readonly ClaimedJob[] }): number[] {
  return jobs.map((job) => JSON.parse(job.payload).n);
}
