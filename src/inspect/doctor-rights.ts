/** May this user do what workers and operators do? */
import type { Executor } from '../postgres/queryable.js';
import { bool, statement, text } from '../postgres/statement.js';
import type { Finding } from './doctor.js';
import { ok, problem } from './doctor.js';

export const askRights = statement({
  name: 'doctor_rights',
  text: `
SELECT c.relname::text AS table, quote_ident(current_user) AS user_name,
  has_schema_privilege(n.oid, 'USAGE') AND
  CASE WHEN c.relkind = 'S' THEN has_sequence_privilege(c.oid, 'USAGE')
    WHEN c.relname = 'migrations' THEN has_table_privilege(c.oid, 'SELECT')
    WHEN c.relname = 'fleet' THEN has_table_privilege(c.oid, 'SELECT')
      AND has_table_privilege(c.oid, 'UPDATE')
    WHEN c.relname = 'queues' THEN has_table_privilege(c.oid, 'SELECT')
      AND has_column_privilege(c.oid, 'maintained_at', 'UPDATE')
    WHEN c.relname ~ '_(archive|claims)$' THEN has_table_privilege(c.oid, 'SELECT')
      AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'DELETE')
    ELSE has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
      AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE') END AS enough
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND c.relkind IN ('r', 'S')
ORDER BY c.relname`,
  columns: { table: text, user_name: text, enough: bool },
});

export async function judgeRights(db: Executor, schema: string): Promise<Finding> {
  const rows = await db.run(askRights, { schema, queue: 'inbox' }, [schema]);
  const short = rows.filter((row) => !row.enough).map((row) => row.table);
  const user = rows[0]?.userName ?? 'this user';
  if (short.length === 0) return ok('rights', `${user} may claim, settle and do maintenance`);
  return problem(
    'rights',
    `User ${user} lacks rights on ${short.join(', ')}.`,
    'A worker that connects as this user fails when it claims, settles or does maintenance.',
    `GRANT holdfast_worker TO ${user}; after running docs/roles.sql as the owner of the schema.`,
  );
}
