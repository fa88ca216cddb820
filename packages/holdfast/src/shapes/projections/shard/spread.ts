/**
 * Shards spread over the workers that there are: at the end of a turn a process with more than its part lets the next
 * turn begin a little later, and tells the others, so that one of them may be first.
 */
import { hintQueue } from '../../../fleet/wake.js';
import { bucketOf } from '../../../job/key.js';
import { engineExecutor } from '../../../postgres/queryable.js';
import { countProjectors } from '../rows/registry.js';
import type { ShardDeps } from './deps.js';

const PAUSE_MS = 500;

export interface Part {
  readonly type: string;
  readonly partitionKey: string;
  /** How many shards of this build the process has, this one included. */
  readonly held: number;
}

/** How long the job of the shard should wait for others. */
export async function pauseFor(
  { pool, names, projection }: ShardDeps,
  { type, partitionKey, held }: Part,
): Promise<number> {
  if (held <= 1) return 0;
  const db = engineExecutor(pool, { prepare: false });
  const workers = await countProjectors(db, names, type);
  if (held <= Math.ceil(projection.shards / Math.max(workers, 1))) return 0;
  const runAt = new Date(Date.now() + PAUSE_MS).toISOString();
  await hintQueue(db, names, [{ runAt, partitionBucket: bucketOf(partitionKey) }]);
  return PAUSE_MS;
}
