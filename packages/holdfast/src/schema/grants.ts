/**
 * A new queue is granted to those who hold `inbox`: every right on the table, its columns, its side tables, its sequence
 * and its functions, with the grant option where there is one. So the users of the first queue can see, fill and work
 * off the next one, whatever their roles are called. Default privileges could not do it: they know neither columns nor
 * which table of a schema is an archive.
 *
 * docs/roles.sql has the same statement for queues that were made before the roles.
 */
import { quoteName } from '../postgres/names.js';
import type { Queryable } from '../postgres/queryable.js';

/** $1: the schema, $2: the queue, $3: the first queue. One GRANT a row, in an order that holds. */
const GRANTS = (queues: string) => `
WITH relations AS (
  SELECT f.oid AS from_oid, f.relacl AS acl, t.relowner AS owner,
    CASE f.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char" AS kind, f.relowner AS from_owner,
    format('%s %I.%I', CASE f.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, $1::text, t.relname) AS name
  FROM pg_class AS t
  JOIN pg_class AS f ON f.relnamespace = t.relnamespace AND f.relkind = t.relkind
    AND f.relname = $3::text || substr(t.relname, length($2::text) + 1)
  WHERE t.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = $1::text)
    AND t.relkind IN ('r', 'p', 'S') AND (t.relname = $2::text OR starts_with(t.relname, $2::text || '_'))
    -- Not a table of a queue whose name begins with the name of this one.
    AND NOT EXISTS (SELECT FROM ${queues} AS q WHERE starts_with(q.name, $2::text || '_')
      AND (t.relname = q.name OR starts_with(t.relname, q.name || '_')))
), functions AS (
  SELECT f.proacl AS acl, t.proowner AS owner,
    format('FUNCTION %I.%I(%s)', $1::text, t.proname, pg_get_function_identity_arguments(t.oid)) AS name
  FROM pg_proc AS t
  JOIN pg_proc AS f ON f.pronamespace = t.pronamespace AND f.proargtypes = t.proargtypes
    AND f.proname = $3::text || substr(t.proname, length($2::text) + 1)
  WHERE t.pronamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = $1::text)
    AND starts_with(t.proname, $2::text || '_') AND f.proacl IS NOT NULL
), given AS (
  -- The owner of the first queue holds it too, whoever makes the next one.
  SELECT r.name, r.owner, a.*, NULL::name AS column_name
  FROM relations AS r, aclexplode(coalesce(r.acl, acldefault(r.kind, r.from_owner))) AS a
  UNION ALL
  SELECT r.name, r.owner, a.*, c.attname
  FROM relations AS r
  JOIN pg_attribute AS c ON c.attrelid = r.from_oid AND c.attnum > 0 AND NOT c.attisdropped
  CROSS JOIN aclexplode(c.attacl) AS a
  UNION ALL
  SELECT f.name, f.owner, a.*, NULL FROM functions AS f, aclexplode(f.acl) AS a
)
SELECT format('REVOKE ALL ON %s FROM PUBLIC', f.name) AS text, 1 AS turn FROM functions AS f
UNION ALL
SELECT format('GRANT %s ON %s TO %s%s',
    concat(g.privilege_type, ' (' || quote_ident(g.column_name) || ')'), g.name,
    CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END,
    CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END), 2
FROM given AS g
WHERE g.grantee <> g.owner
ORDER BY turn, text`;

/** The statements that give those who hold `inbox` the same rights on `queue`. */
export async function grantsLikeInbox(
  client: Queryable,
  schema: string,
  queue: string,
): Promise<string[]> {
  const text = GRANTS(`${quoteName(schema)}.queues`);
  const found = await client.query(text, [schema, queue, 'inbox']);
  return (Array.isArray(found) ? found : found.rows).map((row) => String(row.text));
}
