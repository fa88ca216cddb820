/** Signing secrets: one replaces those before it, which sign beside it for a while. Nothing here reads one. */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { statement, text } from '../../../postgres/statement.js';

/** So many sign at once. */
const MOST = 4;

export const rotateSecret = statement({
  name: 'webhook_rotate',
  text: `
WITH wanted AS (
  SELECT e.id FROM holdfast.webhook_endpoints AS e WHERE e.queue = 'inbox' AND e.id = $1::text::uuid FOR UPDATE
), kept AS MATERIALIZED (
  -- The newest of those that sign still. With an overlap of 0 none: a secret that has leaked is of no use any more.
  SELECT s.id FROM holdfast.webhook_secrets AS s JOIN wanted AS w ON w.id = s.endpoint_id
  WHERE s.kind = 's' AND (s.expires_at IS NULL OR s.expires_at > now()) AND $3::text::bigint > 0
  ORDER BY s.id DESC
  LIMIT $4::text::integer - 1
), replaced AS (
  UPDATE holdfast.webhook_secrets AS s
  SET expires_at = now() + $3::text::bigint * interval '1 millisecond'
  FROM kept AS k WHERE s.id = k.id AND s.expires_at IS NULL
), ended AS (
  DELETE FROM holdfast.webhook_secrets AS s USING wanted AS w
  WHERE s.endpoint_id = w.id AND s.kind = 's' AND NOT EXISTS (SELECT FROM kept AS k WHERE k.id = s.id)
)
INSERT INTO holdfast.webhook_secrets (endpoint_id, kind, value)
SELECT w.id, 's', $2::text FROM wanted AS w
RETURNING endpoint_id::text AS id`,
  columns: { id: text },
});

/** The secret before it signs for so long beside it; 0: it ends now, and so do all before it. */
export async function rotate(
  db: Executor,
  names: Names,
  id: string,
  secret: string,
  overlapMs: number,
): Promise<void> {
  await db.run(rotateSecret, names, [id, secret, String(overlapMs), String(MOST)]);
}
