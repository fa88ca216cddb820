/**
 * Renewing: the owner of running jobs extends their leases, all of them in one statement.
 *
 * Only a live lease of the same owner and generation is extended; an expired one is not revived, even
 * if nobody has claimed the job yet. The jobs that are not returned are lost: their handlers must stop.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { plainArray, statement, uuid } from '../postgres/statement.js';

/** A job as its owner knows it: the id and the generation of the claim. */
export interface Held {
  readonly id: string;
  readonly generation: number;
}

export const renewLeases = statement({
  name: 'renew',
  text: `
UPDATE holdfast.inbox AS i
SET lease_expires_at = now() + $4::integer * interval '1 millisecond'
FROM unnest($2::uuid[], $3::bigint[]) AS held(id, generation)
WHERE i.id = held.id
  AND i.lease_generation = held.generation
  AND i.claimed_by = $1::text
  AND i.status = 'processing'
  AND i.lease_expires_at > statement_timestamp()
RETURNING i.id`,
  columns: { id: uuid },
});

/** Returns the ids that were extended. `held` should be sorted by id: locks are taken in that order. */
export async function renew(
  db: Executor,
  names: Names,
  workerId: string,
  held: readonly Held[],
  leaseMs: number,
): Promise<string[]> {
  const rows = await db.run(renewLeases, names, [
    workerId,
    plainArray(held.map((job) => job.id)),
    plainArray(held.map((job) => job.generation)),
    leaseMs,
  ]);
  return rows.map((row) => row.id);
}
