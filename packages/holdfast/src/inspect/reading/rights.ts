/** What the users of docs/roles.sql need, and what a user lacks of it; by the catalogue alone, so it answers who may read nothing. */
import type { Executor } from '../../postgres/queryable.js';
import { statement, text } from '../../postgres/statement.js';

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
  ...ofQueue('_idempotency', 'SELECT INSERT UPDATE DELETE'),
  ...callOfQueue('_enqueue_unique _lock_unique _count_waiting'),
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
    ...ofQueue('_archive', 'SELECT INSERT DELETE'),
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
    ...ofQueue('_archive', 'SELECT INSERT DELETE'),
    ...ofQueue('_effects', 'DELETE'),
    ...['_steps', '_children'].flatMap((table) => ofQueue(table, 'INSERT UPDATE DELETE')),
    ...callOfQueue('_retake_unique'),
  ],
  viewer: LOOK,
  producer: ENQUEUE,
};

export const askMissingRights = statement({
  name: 'missing_rights',
  text: `
WITH space AS (SELECT n.oid, n.nspname FROM pg_namespace AS n WHERE n.nspname = $1::text),
queues AS (
  SELECT left(c.relname::text, -length('_claims')) AS name
  FROM pg_class AS c JOIN space AS s ON s.oid = c.relnamespace
  WHERE c.relkind = 'r' AND right(c.relname::text, length('_claims')) = '_claims'
), wanted AS (
  SELECT q.name AS queue, coalesce(q.name, '') || w."table" AS name, w."right", w."column",
    coalesce(w."grant", w."right") AS written
  FROM jsonb_to_recordset($2::text::jsonb)
    AS w("table" text, queue boolean, "right" text, "column" text, "grant" text)
  LEFT JOIN queues AS q ON w.queue
)
-- Always there, for the name of the user.
SELECT '' AS queue, '' AS table, quote_ident(current_user) AS user_name,
  CASE WHEN has_schema_privilege(s.oid, 'USAGE') THEN '' ELSE 'USAGE' END AS written
FROM space AS s
UNION ALL
SELECT coalesce(w.queue, ''), w.name, quote_ident(current_user), w.written
FROM wanted AS w JOIN space AS s ON true
JOIN pg_class AS c ON c.relnamespace = s.oid AND c.relname = w.name AND w."right" <> 'EXECUTE'
WHERE NOT CASE WHEN c.relkind = 'S' THEN has_sequence_privilege(c.oid, w."right")
  WHEN w."column" IS NULL THEN has_table_privilege(c.oid, w."right")
  ELSE has_column_privilege(c.oid, w."column", w."right") END
UNION ALL
-- Not of the queue, of which is said by its tables what this user is meant for.
SELECT '', f.signature, quote_ident(current_user), w.written
FROM wanted AS w JOIN space AS s ON true
JOIN pg_proc AS p ON p.pronamespace = s.oid
CROSS JOIN LATERAL (SELECT format('%s(%s)', p.proname, oidvectortypes(p.proargtypes))) AS f(signature)
WHERE w."right" = 'EXECUTE' AND w.name IN (p.proname::text, f.signature) AND NOT has_function_privilege(p.oid, 'EXECUTE')`,
  columns: { queue: text, table: text, user_name: text, written: text },
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
}

/** What the user of this connection lacks to be one of `role`. */
export async function rightsOf(db: Executor, schema: string, role: Role): Promise<Rights> {
  const params = [schema, JSON.stringify(NEEDS[role])];
  const rows = await db.run(askMissingRights, { schema, queue: 'inbox' }, params);
  const lacking = rows.filter(({ written }) => written !== '');
  const tables = [...new Set(lacking.map(({ table }) => table))].sort();
  const missing = tables.map((table) => {
    const own = lacking.filter((row) => row.table === table);
    const rights = [...new Set(own.map(({ written }) => written))];
    return { queue: own[0]?.queue || null, table, rights };
  });
  return { user: rows[0]?.userName ?? 'this user', missing };
}

/** As in `GRANT … ON`. Names of schemas and queues need no quotes. */
export function tableText(schema: string, { table }: MissingGrant): string {
  if (table === '') return `SCHEMA ${schema}`;
  if (table.endsWith(')')) return `FUNCTION ${schema}.${table}`;
  return `${table.endsWith('_seq') ? 'SEQUENCE ' : ''}${schema}.${table}`;
}

export function grantTexts(schema: string, { user, missing }: Rights): string[] {
  return missing.map(
    (one) => `GRANT ${one.rights.join(', ')} ON ${tableText(schema, one)} TO ${user};`,
  );
}
