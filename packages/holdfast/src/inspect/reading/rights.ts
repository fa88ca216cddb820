/** What the users of docs/roles.sql need, and what a user lacks of it; by the catalogue alone, so it answers who may read nothing. */
import type { Executor } from '../../postgres/queryable.js';
import { int4, type Row, statement, text } from '../../postgres/statement.js';

export type Role = 'worker' | 'operator' | 'viewer' | 'producer';

interface Need {
  /** Of a queue: the ending of its table or function, '' for itself. Else the table, or the function with its types. */
  readonly table: string;
  readonly queue: boolean;
  readonly right: string;
  /** Looked for on this column; a right on the whole table is one on all of its columns. */
  readonly column?: string;
  /** How GRANT writes it, if not as the right alone. */
  readonly grant?: string;
}

const on = (table: string, right: string, column?: string): Need => ({
  ...{ table, queue: false, right },
  ...(column && { column }),
  ...(column && right !== 'SELECT' && { grant: `${right} (${column})` }),
});
const ofQueue = (ending: string, rights: string): Need[] =>
  rights.split(' ').map((right) => ({ table: ending, queue: true, right }));

const call = (signature: string): Need => on(signature, 'EXECUTE');
const callOfQueue = (endings: string): Need[] =>
  endings.split(' ').map((table) => ({ table, queue: true, right: 'EXECUTE' }));

/** What cannot be read without it: a viewer may be granted some columns only, and not the payloads. */
const see = (ending: string, column: string): Need => ({
  ...{ table: ending, queue: true, right: 'SELECT', column },
});

/** What runs of workflows have beside their row. */
const RUNS = ['_steps', '_signals', '_children'];

const LOOK: readonly Need[] = [
  ...[on('migrations', 'SELECT', 'id'), on('queues', 'SELECT', 'name')],
  ...[on('workers', 'SELECT', 'status'), on('fleet', 'SELECT', 'epoch')],
  on('schedules', 'SELECT', 'name'),
  ...[on('limits', 'SELECT', 'queue'), on('rates', 'SELECT', 'key')],
  ...[on('permits', 'SELECT', 'held'), on('key_windows', 'SELECT', 'per_key')],
  ...callOfQueue('_held'),
  ...[see('', 'status'), see('_claims', 'jobs'), see('_archive', 'status')],
  ...[see('_steps', 'run_id'), see('_signals', 'run_id')],
];
const ENQUEUE: readonly Need[] = [
  ...[on('migrations', 'SELECT', 'id'), on('queues', 'SELECT', 'name')],
  ...ofQueue('', 'INSERT'),
  { ...see('', 'id'), grant: 'SELECT (id)' },
  ...ofQueue('_position_seq', 'USAGE'),
  ...callOfQueue('_take_key _take_keys _enqueue_unique _lock_unique _count_waiting'),
  // A check of the table calls it with the rights of whoever writes.
  call('state_fits'),
];
/** What an operator changes of a job that waits or is a dead letter. */
const CHANGED =
  'status available_at attempts crashes position parked payload version priority wait_until undo_asked';

export const NEEDS: Readonly<Record<Role, readonly Need[]>> = {
  worker: [
    ...[...LOOK, ...ENQUEUE],
    on('fleet', 'UPDATE'),
    ...['maintained_at', 'serviced_at'].map((column) => on('queues', 'UPDATE', column)),
    on('audit', 'INSERT', 'act'),
    ...[call('count_act(uuid, bigint)'), call('prune_audit(integer)'), call('due_queues(jsonb)')],
    ...['SELECT', 'INSERT', 'UPDATE', 'DELETE'].flatMap((right) => [
      on('workers', right),
      on('schedules', right),
      on('limits', right),
      on('rates', right),
      on('permits', right),
      on('on_dead_letter', right),
    ]),
    call('dead_letter_hook(text, uuid, text, jsonb)'),
    call('wake_run(text, uuid, text[])'),
    ...callOfQueue(
      '_claim _allow _rate_keys _due _set_limit _turns _room _suspects _prune_archive',
    ),
    ...ofQueue('', 'SELECT INSERT UPDATE DELETE'),
    ...ofQueue('_claims', 'SELECT INSERT DELETE'),
    ...ofQueue('_archive', 'SELECT INSERT'),
    ...ofQueue('_idempotency', 'SELECT INSERT UPDATE DELETE'),
    ...ofQueue('_unique', 'SELECT UPDATE DELETE'),
    ...ofQueue('_effects', 'SELECT INSERT UPDATE DELETE'),
    ...RUNS.flatMap((table) => ofQueue(table, 'SELECT INSERT UPDATE DELETE')),
    ...callOfQueue('_suspend _arrive _signal _wake_signalled'),
  ],
  operator: [
    ...[...LOOK, ...ENQUEUE],
    ...['paused', 'paused_types', 'paused_keys'].map((column) => on('queues', 'UPDATE', column)),
    on('workers', 'UPDATE', 'status'),
    on('fleet', 'UPDATE', 'epoch'),
    ...[on('audit', 'INSERT', 'act'), call('count_act(uuid, bigint)')],
    ...[on('schedules', 'UPDATE', 'paused'), on('schedules', 'DELETE')],
    ...['INSERT', 'UPDATE', 'DELETE'].map((right) => on('limits', right)),
    on('rates', 'DELETE'),
    ...callOfQueue('_set_limit'),
    ...CHANGED.split(' ').map((column) => ({
      ...{ table: '', queue: true, right: 'UPDATE', column, grant: `UPDATE (${column})` },
    })),
    ...ofQueue('', 'DELETE'),
    ...ofQueue('_archive', 'SELECT INSERT'),
    ...callOfQueue('_verb_replay'),
    ...ofQueue('_effects', 'DELETE'),
    ...['_steps', '_children'].flatMap((table) => ofQueue(table, 'INSERT UPDATE DELETE')),
    ...callOfQueue('_retake_unique'),
  ],
  viewer: LOOK,
  producer: ENQUEUE,
};

/** Of each role that is asked for: who it is, how much it holds of what it needs, and what it lacks. */
export const askMissingRights = statement({
  name: 'missing_rights',
  text: `
WITH space AS MATERIALIZED (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = $1::text),
queues AS MATERIALIZED (
  SELECT left(c.relname::text, -length('_claims')) AS name
  FROM pg_class AS c JOIN space AS s ON s.oid = c.relnamespace
  WHERE c.relkind = 'r' AND right(c.relname::text, length('_claims')) = '_claims'
), asked AS MATERIALIZED (
  SELECT a.nth, r.oid, r.rolname, a.kind, a.queues
  FROM jsonb_to_recordset($3::text::jsonb) AS a(nth integer, role text, kind text, queues jsonb)
  JOIN pg_roles AS r ON r.rolname = coalesce(a.role, current_user)
), wanted AS MATERIALIZED (
  SELECT a.nth, a.oid, q.name AS queue, coalesce(q.name, '') || w."table" AS name, w."right", w."column",
    coalesce(w."grant", w."right") AS written
  FROM jsonb_to_recordset($2::text::jsonb)
    AS w(kind text, "table" text, queue boolean, "right" text, "column" text, "grant" text)
  JOIN asked AS a ON a.kind = w.kind
  LEFT JOIN queues AS q ON w.queue AND (a.queues IS NULL OR a.queues ? q.name)
  WHERE q.name IS NOT NULL OR NOT w.queue
), judged AS MATERIALIZED (
  SELECT w.nth, w.queue, w.name, w.written,
    CASE WHEN c.relkind = 'S' THEN has_sequence_privilege(w.oid, c.oid, w."right")
      WHEN w."column" IS NULL THEN has_table_privilege(w.oid, c.oid, w."right")
      ELSE has_column_privilege(w.oid, c.oid, w."column", w."right") END AS holds
  FROM wanted AS w JOIN space AS s ON true
  JOIN pg_class AS c ON c.relnamespace = s.oid AND c.relname = w.name
  WHERE w."right" <> 'EXECUTE'
  UNION ALL
  -- Not of the queue, of which is said by its tables what the role is meant for.
  SELECT w.nth, NULL, f.signature, w.written, has_function_privilege(w.oid, p.oid, 'EXECUTE')
  FROM wanted AS w JOIN space AS s ON true
  JOIN pg_proc AS p ON p.pronamespace = s.oid AND p.proname = split_part(w.name, '(', 1)
  CROSS JOIN LATERAL (SELECT format('%s(%s)', p.proname, oidvectortypes(p.proargtypes))) AS f(signature)
  WHERE w."right" = 'EXECUTE' AND w.name IN (p.proname::text, f.signature)
), counted AS MATERIALIZED (
  SELECT j.nth, j.queue, count(*) FILTER (WHERE j.holds) AS held, count(*) AS wanted FROM judged AS j GROUP BY 1, 2
)
-- Always there, for the name of the role.
SELECT a.nth, '' AS queue, '' AS table, quote_ident(a.rolname) AS user_name,
  CASE WHEN has_schema_privilege(a.oid, s.oid, 'USAGE') THEN '' ELSE 'USAGE' END AS written,
  coalesce((SELECT 1000 * sum(c.held) / nullif(sum(c.wanted), 0) FROM counted AS c
    WHERE c.nth = a.nth AND (c.held > 0 OR c.queue IS NULL)), 0)::integer AS share
FROM asked AS a CROSS JOIN space AS s
UNION ALL
SELECT j.nth, coalesce(j.queue, ''), j.name, '', j.written, (1000 * c.held / c.wanted)::integer
FROM judged AS j JOIN counted AS c ON c.nth = j.nth AND c.queue IS NOT DISTINCT FROM j.queue
WHERE NOT j.holds`,
  columns: {
    ...{ nth: int4, queue: text, table: text, user_name: text, written: text },
    /** Of a thousand rights that it needs on the queue, so many it holds; in the first row: of all. */
    share: int4,
  },
});

/** A table, and the rights on it that a user lacks. */
export interface MissingGrant {
  /** Null: it is a table of the schema, or the schema itself. */
  readonly queue: string | null;
  /** '': the schema. */
  readonly table: string;
  readonly rights: readonly string[];
}

export interface Rights {
  /** As SQL writes it. */
  readonly user: string;
  readonly missing: readonly MissingGrant[];
  /** Of a thousand rights that it needs, so many it holds, where it holds anything. */
  readonly share: number;
  /** Queues on whose tables it holds nothing at all. */
  readonly kept: readonly string[];
}

/** Whose rights, and for what. */
export interface AskedRole {
  /** Null: the user of this connection. */
  readonly role: string | null;
  readonly kind: Role;
  /** Null: all of them. */
  readonly queues?: readonly string[] | null;
}

/** What each of them lacks to be what it is meant to be. One that is not there is left out. */
export async function rightsOfAll<Asked extends AskedRole>(
  db: Executor,
  schema: string,
  asked: readonly Asked[],
): Promise<{ readonly of: Asked; readonly rights: Rights }[]> {
  if (asked.length === 0) return [];
  const kinds = [...new Set(asked.map(({ kind }) => kind))];
  const needs = kinds.flatMap((kind) => NEEDS[kind].map((need) => ({ kind, ...need })));
  const roles = asked.map(({ role, kind, queues = null }, nth) => ({ nth, role, kind, queues }));
  const params = [schema, JSON.stringify(needs), JSON.stringify(roles)];
  const rows = await db.run(askMissingRights, { schema, queue: 'inbox' }, params);
  return asked.flatMap((of, nth) => {
    const own = rows.filter((row) => row.nth === nth);
    return own.length > 0 ? [{ of, rights: rightsFrom(own) }] : [];
  });
}

function rightsFrom(rows: readonly Row<typeof askMissingRights.columns>[]): Rights {
  const lacking = rows.filter(({ written }) => written !== '');
  const tables = [...new Set(lacking.map(({ table }) => table))].sort();
  const missing = tables.map((table) => {
    const own = lacking.filter((row) => row.table === table);
    const all = new Set(own.map(({ written }) => written));
    // The right on the table is one on its columns.
    const rights = [...all].filter(
      (one) => !all.has(one.replace(/ \(.*/, '')) || !one.includes(' ('),
    );
    return { queue: own[0]?.queue || null, table, rights };
  });
  const first = rows.find(({ table }) => table === '');
  const kept = lacking.filter(({ queue, share }) => queue !== '' && share === 0);
  return {
    ...{ user: first?.userName ?? 'this user', share: first?.share ?? 0, missing },
    kept: [...new Set(kept.map(({ queue }) => queue))],
  };
}

/** Whether what a role needs says something of this table, or function, of one of these queues or of the schema. */
export function isNeeded(role: Role, name: string, queues: readonly string[]): boolean {
  return NEEDS[role].some(({ table, queue }) =>
    queue ? queues.some((one) => name === `${one}${table}`) : name === table.replace(/\(.*/, ''),
  );
}

/** What the user of this connection lacks to be one of `role`. */
export async function rightsOf(db: Executor, schema: string, role: Role): Promise<Rights> {
  const [own] = await rightsOfAll(db, schema, [{ role: null, kind: role }]);
  return own?.rights ?? { user: 'this user', missing: [], share: 0, kept: [] };
}

/** As in `GRANT … ON`. Names of schemas and queues need no quotes. */
export function tableText(schema: string, { table }: MissingGrant): string {
  if (table === '') return `SCHEMA ${schema}`;
  if (table.endsWith(')')) return `FUNCTION ${schema}.${table}`;
  return `${table.endsWith('_seq') ? 'SEQUENCE ' : ''}${schema}.${table}`;
}

export function grantTexts(
  schema: string,
  { user, missing }: Pick<Rights, 'user' | 'missing'>,
): string[] {
  return missing.map(
    (one) => `GRANT ${one.rights.join(', ')} ON ${tableText(schema, one)} TO ${user};`,
  );
}
