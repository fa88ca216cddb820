/** How the jobs of projections are named: one job for each shard, in a queue of their own. */
import { HoldfastError } from '../../job/errors/holdfast-error.js';
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

/** Whether the cursors of a build were taken in another cluster, as far as both are known. */
export const isForeign = (of: string | null, here: string | null): boolean =>
  of !== null && here !== null && of !== here;

export function youngerCluster(name: string): HoldfastError {
  return new HoldfastError(
    'PROJECTION_CLUSTER',
    `The cursors of projection "${name}" were taken in another cluster of PostgreSQL than this one (a dump that was restored, or pg_upgrade), ` +
      'so they do not say what has been read. Nothing was applied. ' +
      `Run \`holdfast projections rebase ${name}\`: it carries them over where it is certain what was read.`,
  );
}
