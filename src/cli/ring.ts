/**
 * The ring as the command line asks for it: the fleet's own function over the live workers that can run a
 * job. The registry is read a moment after the workers read it, so while the fleet changes, this
 * picture and theirs may differ.
 */
import { ringOwners } from '../fleet/ring.js';
import type { RingOwner } from '../inspect/explain-situation.js';
import { handlesVersion } from '../inspect/workers.js';

/** The owners of all buckets, by who is on the ring; one command asks for the same ones again and again. */
const known = new Map<string, readonly string[]>();

export const ringOwner: RingOwner = (workers, { queue, bucket, type, version }) => {
  const ids = workers
    .filter((worker) => (handlesVersion(worker, queue, type) ?? 0) >= version)
    .map((worker) => worker.id);
  const key = JSON.stringify(ids);
  const owners = known.get(key) ?? ringOwners(ids);
  known.set(key, owners);
  return owners[bucket] ?? null;
};
