/** Claiming from a queue that is read by key, without the worker: every key, from the start. */
import {
  claimKeyed,
  type KeyedClaim,
  type KeyedClaimRequest,
} from '../../packages/holdfast/src/claim/key/claim.js';
import { stretchesOf } from '../../packages/holdfast/src/claim/key/stretches.js';
import { BUCKETS, bucketOf } from '../../packages/holdfast/src/job/key.js';
import type { Names } from '../../packages/holdfast/src/postgres/names.js';
import type { Executor } from '../../packages/holdfast/src/postgres/queryable.js';
import { terms } from './claiming.js';
import { INBOX } from './database.js';

export const EVERY_BUCKET = Array.from({ length: BUCKETS }, (_, bucket) => bucket);
export const ALL_KEYS = stretchesOf(EVERY_BUCKET);

/** The bucket of one key, and nothing else. */
export const bucketOnly = (key: string) => stretchesOf([bucketOf(key)]);

/** Keys in the order in which a walk meets them. */
export const inWalkOrder = (keys: readonly string[]) =>
  [...keys].sort((a, b) => bucketOf(a) - bucketOf(b) || (a < b ? -1 : 1));

export type KeyedOptions = Partial<KeyedClaimRequest> & { readonly names?: Names };

export function claimInOrder(
  db: Executor,
  workerId: string,
  { names = INBOX, ...options }: KeyedOptions = {},
): Promise<KeyedClaim> {
  const request = {
    ...terms(workerId),
    ...{ stretches: ALL_KEYS, run: 100, ask: false, soonMs: 3_000, ...options },
  };
  return claimKeyed(db, names, request);
}
