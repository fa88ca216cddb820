/**
 * Which roles work here, and as what: what live workers say of themselves, who is connected by the names that Holdfast
 * gives its sessions, and the roles of docs/roles.sql. It reads the catalogue and the list of sessions, and no table of
 * the schema.
 */
import { bool, json, text } from '../../../postgres/statement.js';
import { saysOf, type WorkerRow } from '../../fleet/workers.js';
import { type Answer, asks } from '../../reading/asks.js';
import type { Role } from '../../reading/rights.js';

export const askRoles = asks({
  name: 'doctor_roles',
  text: `
WITH at_work AS (
  SELECT a.usename::text AS role, a.application_name AS application
  FROM pg_stat_activity AS a
  WHERE a.datname = current_database() AND a.usename IS NOT NULL
    AND a.application_name IN ('holdfast', 'holdfast keeper', 'holdfast listener', 'holdfast projector')
  UNION ALL
  SELECT w.role, 'worker' FROM jsonb_array_elements_text($2::text::jsonb) AS w(role)
  UNION ALL
  SELECT current_user::text, NULL
), groups AS MATERIALIZED (
  -- Those of docs/roles.sql, also with a word of the user's own in their names.
  SELECT g.oid, g.rolname::text AS name, m.kind,
    array_position(ARRAY['worker', 'operator', 'viewer', 'producer'], m.kind) AS rank
  FROM pg_roles AS g
  CROSS JOIN LATERAL (
    SELECT substring(g.rolname::text FROM '^holdfast_(?:.*_)?(worker|operator|viewer|producer)$')) AS m(kind)
  JOIN pg_namespace AS n ON n.nspname = $1::text
  WHERE m.kind IS NOT NULL AND g.rolname::text !~ 'sql_worker$' AND NOT g.rolcanlogin AND NOT g.rolsuper
    AND has_schema_privilege(g.oid, n.oid, 'USAGE')
)
SELECT r.rolname::text AS role, r.rolname = current_user AS own, g.name AS "group", g.kind,
  to_jsonb(coalesce(array_agg(DISTINCT w.application) FILTER (WHERE w.application IS NOT NULL), '{}')) AS applications
FROM at_work AS w
JOIN pg_roles AS r ON r.rolname = w.role AND NOT r.rolsuper
LEFT JOIN LATERAL (
  SELECT o.name, o.kind FROM groups AS o WHERE pg_has_role(r.oid, o.oid, 'USAGE')
  ORDER BY o.rank, o.name = r.rolname DESC, o.name LIMIT 1
) AS g ON true
GROUP BY r.rolname, g.name, g.kind
UNION ALL
SELECT g.name, false, g.name, g.kind, '[]' FROM groups AS g WHERE g.name = 'holdfast_' || g.kind
ORDER BY role
LIMIT 1000`,
  columns: {
    ...{ role: text, own: bool, group: text.orNull, kind: text.orNull, applications: json },
  },
  params: (schema: string, roles: readonly string[]) => [schema, JSON.stringify(roles)],
});

/** A role whose rights decide: a group for all its members, else the user itself. */
export interface WorkingRole {
  readonly role: string;
  /** It is a group of docs/roles.sql, and its members have what it has. */
  readonly group: boolean;
  /** Null: neither a group nor a session says what it is. */
  readonly kind: Role | null;
  /** Its live workers. */
  readonly workers: readonly string[];
  /** Who is connected as it. */
  readonly users: readonly string[];
  /** Queues that its workers serve. */
  readonly serves: readonly string[];
  /** The user of this connection. */
  readonly own: boolean;
}

/** The role of the database as which a worker is connected; null: it is of an older version. */
export const roleOf = (worker: WorkerRow): string | null => saysOf(worker, 'databaseRole');

/** Its queues. */
export const servedBy = ({ handles }: WorkerRow) => Object.keys((handles ?? {}) as object);

export function workingRoles(
  rows: readonly Answer<typeof askRoles>[],
  live: readonly WorkerRow[],
): WorkingRole[] {
  const all = new Map<string, WorkingRole>();
  for (const { role, own, group, kind, applications } of rows) {
    const workers = live.filter((worker) => roleOf(worker) === role);
    const sessions: string[] = JSON.parse(applications);
    const works = workers.length > 0 || sessions.includes('holdfast keeper');
    const name = group ?? role;
    const before = all.get(name);
    all.set(name, {
      ...{ role: name, group: group !== null },
      kind: before?.kind ?? (kind as Role | null) ?? (works ? 'worker' : null),
      workers: [...(before?.workers ?? []), ...workers.map(({ id }) => id)],
      users: [
        ...(before?.users ?? []),
        ...((sessions.length > 0 || own) && role !== name ? [role] : []),
      ],
      serves: [...new Set([...(before?.serves ?? []), ...workers.flatMap(servedBy)])],
      own: own || before?.own === true,
    });
  }
  return [...all.values()];
}
