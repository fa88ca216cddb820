/**
 * The live catalogue beside what the migrations make. The migrations are run into a schema of another name,
 * in a transaction that is rolled back, and both schemas are described in the same words; what differs has
 * drifted. So nothing is written down twice, and it holds for every version of the server. The segments of an archive come
 * and go: neither they nor which of them is the last is compared.
 */
import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import { quoteName } from '../../postgres/names.js';
import { engineExecutor } from '../../postgres/queryable.js';
import { statement, text } from '../../postgres/statement.js';

const TABLES = `FROM own JOIN pg_class AS c ON c.relnamespace = own.oid AND c.relkind IN ('r', 'p') AND NOT c.relispartition`;
const RELATIONS = `FROM own JOIN pg_class AS c ON c.relnamespace = own.oid AND NOT c.relispartition`;
const COLUMNS = `${TABLES}
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum AND NOT (c.relkind = 'p' AND a.attname = 'segment')`;
const INDEXES = `${RELATIONS}
JOIN pg_index AS i ON i.indexrelid = c.oid`;
const TRIGGERS = `${RELATIONS}
JOIN pg_trigger AS t ON t.tgrelid = c.oid AND NOT t.tgisinternal`;

export const describeSchema = statement({
  name: 'describe_schema',
  text: `
WITH own AS (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = $1::text)
SELECT 'column' AS kind, c.relname || '.' || a.attname AS name,
  format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
    || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid, true), '') AS definition
${COLUMNS}
UNION ALL
-- In alphabetical order: a setting that is set again moves to the end.
SELECT 'settings of table', c.relname::text,
  coalesce((SELECT string_agg(o.option, ', ' ORDER BY o.option) FROM unnest(c.reloptions) AS o(option)), '')
${TABLES}
UNION ALL
SELECT 'constraint', c.relname || '.' || k.conname, pg_get_constraintdef(k.oid, true)
${RELATIONS}
JOIN pg_constraint AS k ON k.conrelid = c.oid AND k.contype IN ('p', 'u', 'c', 'f', 'x')
UNION ALL
SELECT 'index', c.relname::text, pg_get_indexdef(i.indexrelid, 0, true)
  || CASE WHEN i.indisvalid THEN '' ELSE ' (invalid)' END
${INDEXES}
UNION ALL
SELECT 'trigger', c.relname || '.' || t.tgname, t.tgenabled::text || ' ' || pg_get_triggerdef(t.oid, true)
${TRIGGERS}
UNION ALL
SELECT 'function', p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')',
  pg_get_function_result(p.oid) || ' ' || p.provolatile::text || ' ' || p.prosrc
FROM own JOIN pg_proc AS p ON p.pronamespace = own.oid
UNION ALL
SELECT 'type', t.typname::text,
  (SELECT string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder) FROM pg_enum AS e WHERE e.enumtypid = t.oid)
FROM own JOIN pg_type AS t ON t.typnamespace = own.oid AND t.typtype = 'e'
UNION ALL
SELECT 'sequence', c.relname::text, ''
FROM own JOIN pg_class AS c ON c.relnamespace = own.oid AND c.relkind = 'S'
ORDER BY 1, 2`,
  columns: { kind: text, name: text, definition: text },
});

// With every name in full, for a search path on which nothing of ours lies.
export const describeMaking = statement({
  name: 'describe_making',
  text: `
WITH own AS (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = $1::text)
SELECT 'constraint' AS kind, c.relname || '.' || k.conname AS name, pg_get_constraintdef(k.oid) AS made
${RELATIONS}
JOIN pg_constraint AS k ON k.conrelid = c.oid
UNION ALL
-- Of a partitioned table, with its partitions.
SELECT 'index', c.relname::text, replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ')
${INDEXES}
UNION ALL
SELECT 'trigger', c.relname || '.' || t.tgname, pg_get_triggerdef(t.oid)
${TRIGGERS}
UNION ALL
SELECT 'column', c.relname || '.' || a.attname,
  format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
    || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')
${COLUMNS}
UNION ALL
SELECT 'function', p.proname::text, pg_get_functiondef(p.oid)
FROM own JOIN pg_proc AS p ON p.pronamespace = own.oid`,
  columns: { kind: text, name: text, made: text },
});

export interface Difference {
  readonly kind: string;
  readonly name: string;
  readonly how: 'missing' | 'changed' | 'extra';
  readonly is: string;
  readonly expected: string;
  /** How the server would have it made, with every name in full; empty where it has no words for it. */
  readonly made: string;
}

interface Described {
  readonly kind: string;
  readonly name: string;
  readonly definition: string;
}
type Description = ReadonlyMap<string, Described>;

async function describe(client: pg.ClientBase, schema: string): Promise<Description> {
  // Names of the schema's own things are printed bare when the search path leads to them.
  await client.query(`SET LOCAL search_path = "${schema}"`);
  const db = engineExecutor(client, { prepare: false });
  const rows = await db.run(describeSchema, { schema, queue: 'inbox' }, [schema]);
  // Other schemas stand in quotes: a word at the end of a sentence, or a variable, may be spelt like one.
  // `holdfast.notify` is a setting of a session, the same for every schema.
  const own =
    schema === 'holdfast' ? /"?\bholdfast\b"?\.(?!notify\b)/g : new RegExp(`"${schema}"\\.`, 'g');
  return new Map(
    rows
      // The record of migrations is made beside them and not by them.
      .filter(({ name }) => !/^migrations(\b|_)/.test(name))
      .map(({ kind, name, definition }) => {
        // Bodies of functions name the schema, quoted or not.
        const bare = definition.replaceAll(own, 'SCHEMA.').replaceAll('"', '');
        return [`${kind} ${name}`, { kind, name, definition: settled(kind, bare) }];
      }),
  );
}

/** Without what makes no difference: the order of an index' settings, and how a pasted function is indented. */
function settled(kind: string, definition: string): string {
  if (kind === 'function') return definition.replace(/\s*\n\s*/g, '\n').trim();
  if (kind !== 'index') return definition;
  const sorted = (_: string, list: string) => ` WITH (${list.split(', ').sort().join(', ')})`;
  return definition.replace(/ WITH \(([^)]*)\)/, sorted);
}

/** The words that make what the migrations make, turned towards the schema that is looked at. */
async function makings(client: pg.ClientBase, scratch: string, schema: string) {
  await client.query(`SET LOCAL search_path = ''`);
  const db = engineExecutor(client, { prepare: false });
  const rows = await db.run(describeMaking, { schema, queue: 'inbox' }, [scratch]);
  const name = schema === 'holdfast' ? schema : quoteName(schema);
  const turned = (words: string) =>
    words.replaceAll(`"${scratch}"`, name).replaceAll(scratch, name);
  return new Map(rows.map((row) => [`${row.kind} ${row.name}`, turned(row.made)]));
}

/** How a queue is read is a setting, and a trigger makes the index and the wake-up that belong to it. */
const orderedAs = (schema: string, scratch: string) => `
UPDATE ${scratch}.queues AS made
SET ordering = live.ordering::text::${scratch}.ordering, fair = live.ordering::text = 'turns'
FROM "${schema}".queues AS live
WHERE live.name = made.name`;

/** `textsFor` gives the SQL of all migrations and queues for a schema of that name. */
export async function findDrift(
  client: pg.ClientBase,
  schema: string,
  textsFor: (schema: string) => readonly string[],
): Promise<Difference[]> {
  const scratch = `holdfast_doctor_${randomBytes(6).toString('hex')}`;
  // A role or a database may be read-only by default; this is rolled back.
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE');
  try {
    await client.query(
      'SET LOCAL lock_timeout = 1000; SET LOCAL statement_timeout = 15000; SET LOCAL idle_in_transaction_session_timeout = 0',
    );
    const live = await describe(client, schema);
    await client.query(`CREATE SCHEMA ${scratch}`);
    for (const sql of textsFor(scratch)) await client.query(sql);
    if (live.has('column queues.ordering')) await client.query(orderedAs(schema, scratch));
    const differences = compare(live, await describe(client, scratch));
    if (differences.length === 0) return [];
    const made = await makings(client, scratch, schema);
    return differences.map((one) => ({ ...one, made: made.get(keyOf(one)) ?? '' }));
  } finally {
    await client.query('ROLLBACK');
  }
}

/** A function is found without its arguments, whose types are printed by the search path. */
const keyOf = ({ kind, name }: Difference) =>
  `${kind} ${kind === 'function' ? name.replace(/\(.*$/s, '') : name}`;

function compare(live: Description, wanted: Description): Difference[] {
  const differences: Difference[] = [];
  for (const [key, { kind, name, definition }] of wanted) {
    const is = live.get(key)?.definition;
    if (is === definition) continue;
    const how = is === undefined ? 'missing' : 'changed';
    differences.push({ kind, name, how, is: is ?? '', expected: definition, made: '' });
  }
  for (const [key, { kind, name, definition }] of live) {
    if (wanted.has(key)) continue;
    differences.push({ kind, name, how: 'extra', is: definition, expected: '', made: '' });
  }
  return differences;
}
