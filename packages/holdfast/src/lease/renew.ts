/**
 * Renewing: the owner of running jobs extends their leases, all of them in one statement. Only a live lease of the same
 * owner and generation is extended. The jobs that are not returned are lost: their handlers must stop. A row that is locked
 * is skipped: it must not cost the others their leases.
 */
import { ALL_FENCED } from '../postgres/fragments.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, plainArray, statement, uuid } from '../postgres/statement.js';

/** A job as its owner knows it: the id and the generation of the claim. */
export interface Lease {
  readonly id: string;
  readonly generation: number;
}

export const renewLeases = statement({
  name: 'renew',
  text: `
WITH free AS MATERIALIZED (
  SELECT i.ctid FROM holdfast.inbox AS i
  WHERE ${ALL_FENCED}
  FOR NO KEY UPDATE SKIP LOCKED
), renewed AS (
  UPDATE holdfast.inbox AS i
  SET lease_expires_at = now() + $4::integer * interval '1 millisecond'
  WHERE i.ctid = ANY (ARRAY(SELECT ctid FROM free))
  RETURNING i.id
)
SELECT i.id, i.id = ANY (ARRAY(SELECT r.id FROM renewed AS r)) AS renewed
FROM holdfast.inbox AS i
WHERE ${ALL_FENCED}`,
  columns: { id: uuid, renewed: bool },
});

/** A job that is returned without being renewed is still held: somebody has its row locked just now. */
export function renew(
  db: Executor,
  names: Names,
  workerId: string,
  held: readonly Lease[],
  leaseMs: number,
) {
  return db.run(renewLeases, names, [
    workerId,
    plainArray(held.map((job) => job.id)),
    plainArray(held.map((job) => job.generation)),
    leaseMs,
  ]);
}
