/** How the jobs of projections are named: one job for each shard, in a queue of their own. */
import { type JobDefinition, job } from '../../job/job.js';

/** Where the jobs of shards live. */
export const PROJECTORS = 'projectors';

export interface ShardOf {
  /** The row in `projections`. */
  readonly id: number;
  readonly shard: number;
}

/**
 * A type for each version, so that a job is claimed only by workers that have its code. It never gives up: what fails for
 * a reason that passes is tried again.
 */
export const shardJob = (name: string, version: number): JobDefinition<ShardOf, ShardOf> =>
  job<ShardOf>(`project:${name}:${version}`, { queue: PROJECTORS, maxAttempts: 10_000 });
