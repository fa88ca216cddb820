/** Claiming as a worker's statement does, without the worker: every priority, from the front. */
import { claimSuspects, type SuspectsClaim } from '../../packages/holdfast/src/claim/suspects.js';
import {
  byDue,
  type ClaimedJob,
  type ClaimTerms,
  newestOf,
  type Versions,
} from '../../packages/holdfast/src/claim/take.js';
import {
  claimTime,
  type TimeClaim,
  type TimeRequest,
} from '../../packages/holdfast/src/claim/time/claim.js';
import { frontLines } from '../../packages/holdfast/src/claim/time/lines.js';
import {
  claimRateKeys,
  type RatedClaim,
  type RatedRequest,
} from '../../packages/holdfast/src/claim/time/rated.js';
import type { Names } from '../../packages/holdfast/src/postgres/names.js';
import type { Executor } from '../../packages/holdfast/src/postgres/queryable.js';
import { INBOX } from './database.js';

let claims = 0;

/** What a claim of any kind needs. Every claim has a number of its own. */
export function terms(workerId: string): ClaimTerms & { readonly versions: Versions } {
  claims++;
  return {
    ...{ workerId, number: claims, finished: [], leaseMs: 90_000, limit: 1_000 },
    versions: { step: 1 },
  };
}

export type TimeOptions = Partial<TimeRequest & RatedRequest> & {
  readonly names?: Names;
  readonly versions?: Versions;
};

/** The lines, and for what is left of the limit the keys of rates, as a worker reads them. */
export async function claimByTime(
  db: Executor,
  workerId: string,
  { names = INBOX, ...options }: TimeOptions = {},
): Promise<TimeClaim & RatedClaim> {
  const asked = { ...terms(workerId), lagMs: 250, ask: false, ...options };
  // So many that what runs in front of them does not cut a line short.
  const lines = frontLines(asked.versions, 10_000);
  const types = Object.entries(asked.versions);
  const walks = types.map(([type, of]) => ({ type, version: newestOf(of), afterKey: '' }));
  const plain = await claimTime(db, names, { lines, ...asked });
  const limit = asked.limit - plain.jobs.length;
  const { number } = terms(workerId);
  const keys = { walks, keys: 1_000, ...asked, limit, number };
  const none = { found: 0, refused: {}, walked: {}, walkMs: null, jobs: [] };
  const rated = limit > 0 && !options.aged ? await claimRateKeys(db, names, keys) : none;
  return {
    ...{ ...plain, walked: rated.walked, walkMs: rated.walkMs },
    found: plain.found + rated.found,
    refused: { ...plain.refused, ...rated.refused },
    jobs: [...plain.jobs, ...rated.jobs].sort(byDue),
  };
}

export type SuspectOptions = Partial<ClaimTerms> & {
  readonly names?: Names;
  readonly versions?: Versions;
};

export function claimSuspected(
  db: Executor,
  workerId: string,
  { names = INBOX, ...options }: SuspectOptions = {},
): Promise<SuspectsClaim> {
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
