/** Claiming ordered jobs as a worker's statement does, without the worker: every key, from the start. */
import type { Claimed } from '../../src/claim/claim.js';
import {
  claimOrdered,
  type OrderedClaim,
  type OrderedClaimRequest,
} from '../../src/claim/claim-ordered.js';
import { between, startOf } from '../../src/claim/order-places.js';
import type { ClaimedJob } from '../../src/claim/taking.js';
import { BUCKETS, bucketOf } from '../../src/job/key.js';
import type { Names } from '../../src/postgres/names.js';
import type { Executor } from '../../src/postgres/queryable.js';
import { INBOX } from './database.js';

export const ALL_KEYS = between(startOf(0), startOf(BUCKETS), [{ from: 0, to: BUCKETS - 1 }]);

/** The bucket of one key, and nothing else. */
export function bucketOnly(key: string) {
  const bucket = bucketOf(key);
  return between(startOf(bucket), startOf(bucket + 1), [{ from: bucket, to: bucket }]);
}

export type OrderedOptions = Partial<OrderedClaimRequest> & { readonly names?: Names };

export function claimInOrder(
  db: Executor,
  workerId: string,
  { names = INBOX, ...options }: OrderedOptions = {},
): Promise<OrderedClaim> {
  return claimOrdered(db, names, {
    workerId,
    probes: ALL_KEYS,
    limit: 1_000,
    run: 100,
    leaseMs: 90_000,
    versions: { step: 1 },
    above: {},
    deadWorkers: [],
    trusted: ['step'],
    ...options,
  });
}

/** The numbers that the jobs of a test carry, in the order in which they came. */
export function numbers({ jobs }: Pick<Claimed, 'jobs'>): number[] {
  return jobs.map((job: ClaimedJob) => JSON.parse(job.payload).n);
}
