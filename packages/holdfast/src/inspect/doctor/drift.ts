/**
 * What a drifted catalogue means, and how to mend it, to be pasted. Indexes are made and dropped CONCURRENTLY, which blocks
 * nobody. What needs the table for a moment gives up after two seconds instead of making everybody wait behind it. What
 * would rewrite a table is not offered.
 */
import type { Difference } from './catalogue.js';
import { type Finding, lines, note, ok, PATIENCE, problem } from './doctor.js';

/** What every claim or renewal changes: an index on any of these makes it write every index of the table. */
const CLAIM_WRITES =
  /\b(status|attempts|lease_generation|isolated|started|claimed_at|lease_expires_at|claimed_by)\b/;

/** How ids are made where the server has no uuidv7() of its own; see the first migration. */
const OLDER_IDS = /\bint8send\(\(extract\(epoch FROM clock_timestamp\(\)\) \* 1000\)::bigint\)/;

const MOST = 20;

export function judgeDrift(schema: string, found: readonly Difference[]): Finding[] {
  if (found.length === 0) return [ok('schema drift', 'the catalogue is what the migrations make')];
  const differences = inFixingOrder(found);
  const findings = differences.slice(0, MOST).map((one) => judgeOne(schema, one));
  if (differences.length <= MOST) return findings;
  const more = differences.length - MOST;
  return [
    ...findings,
    problem(
      'schema drift',
      `${more} more things differ.`,
      'So many differences mean that the schema was made by something else than these migrations.',
      'Compare it with a schema that `holdfast migrate` makes in an empty database.',
    ),
  ];
}

function judgeOne(schema: string, one: Difference): Finding {
  const { kind, name, how, is } = one;
  const what = `${kind} ${name}`;
  const differs = (of: typeof note, text: string, why: string, fix = fixOf(schema, one)) =>
    of('schema drift', text, why, fix);
  if (how === 'missing') {
    const why = 'Statements rely on it: they fail, or read the whole table.';
    return differs(problem, `The ${what} is missing.`, why);
  }
  if (how === 'changed' && name === 'new_id()' && OLDER_IDS.test(is)) {
    return differs(
      note,
      'The function new_id() is that of a Postgres before 18.',
      'The schema was made there and came with pg_upgrade or a dump. Ids made in SQL are as unique, but those of one millisecond are in no order.',
    );
  }
  if (how === 'changed') {
    const why = `Somebody changed it by hand; the engine was not tested with it. ${difference(one)}`;
    return differs(problem, `The ${what} is not what the migrations make.`, why);
  }
  if (kind === 'index' && CLAIM_WRITES.test(is.replace(/^[\s\S]*? ON /, ''))) {
    return differs(
      problem,
      `There is an extra index ${name} on a column that every claim writes.`,
      'Claims are no longer HOT updates: each one writes every index, and claims get several times slower.',
    );
  }
  const why = 'Holdfast did not make it. It may be yours; it may cost every enqueue something.';
  return differs(note, `There is an extra ${what}.`, why, 'Nothing, if you know it.');
}

const BEFORE = 30;
const SHOWN = 120;

function difference({ is, expected }: Difference): string {
  const [now, wanted] = [is, expected].map((text) => text.replace(/\s+/g, ' ').trim()) as [
    string,
    string,
  ];
  let at = 0;
  while (at < now.length && now[at] === wanted[at]) at++;
  const from = Math.max(0, at - BEFORE);
  const shown = (text: string) =>
    `${from > 0 ? '…' : ''}${text.slice(from, from + SHOWN)}${text.length > from + SHOWN ? '…' : ''}`;
  return `It is: ${shown(now) || '(nothing)'} It should be: ${shown(wanted) || '(nothing)'}`;
}

/** What others rest on comes first. */
const ORDER = [
  'type',
  'sequence',
  'function',
  'column',
  'settings of table',
  'index',
  'constraint',
  'trigger',
];

export function inFixingOrder(differences: readonly Difference[]): Difference[] {
  const has = (kind: string, name: string) =>
    differences.some((one) => one.kind === kind && one.name.endsWith(`.${name}`));
  return (
    differences
      // A primary key and its index are one thing.
      .filter(
        ({ kind, name, how }) => kind !== 'index' || how === 'extra' || !has('constraint', name),
      )
      .sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind))
  );
}

export const quoted = (name: string) =>
  /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;

export function fixOf(schema: string, one: Difference): string {
  const fix = FIXES[one.kind]?.(schema, one);
  return (
    fix ?? lines('Restore it as the migrations make it:', `${one.kind} ${one.name} ${one.expected}`)
  );
}

type Fix = (schema: string, one: Difference) => string | null;

/** `inbox.inbox_state_check`: the table, and what belongs to it. */
function parts(schema: string, name: string): { table: string; own: string } {
  const [table, own] = name.split('.') as [string, string];
  return { table: `${schema}.${quoted(table)}`, own: quoted(own) };
}

const index: Fix = (schema, { name, how, is, expected, made }) => {
  const path = `${schema}.${quoted(name)}`;
  if (how === 'extra') return `DROP INDEX CONCURRENTLY ${path};`;
  const make = made.replace(/^CREATE (UNIQUE )?INDEX /, 'CREATE $1INDEX CONCURRENTLY ');
  if (how === 'missing') return `${make};`;
  // What a CREATE INDEX CONCURRENTLY that failed has left behind.
  if (is === `${expected} (invalid)`) return `REINDEX INDEX CONCURRENTLY ${path};`;
  const next = `${name}_new`;
  return lines(
    `${make.replace(`CONCURRENTLY ${quoted(name)} `, `CONCURRENTLY ${quoted(next)} `)};`,
    `DROP INDEX CONCURRENTLY ${path};`,
    `ALTER INDEX ${schema}.${quoted(next)} RENAME TO ${quoted(name)};`,
  );
};

const constraint: Fix = (schema, { name, how, made }) => {
  if (how === 'extra') return null;
  const { table, own } = parts(schema, name);
  const drop = how === 'changed' ? `DROP CONSTRAINT ${own}, ` : '';
  const unique = /^(PRIMARY KEY|UNIQUE) (\(.*\))$/.exec(made);
  if (unique) {
    const next = quoted(`${own.replaceAll('"', '')}_new`);
    return lines(
      `CREATE UNIQUE INDEX CONCURRENTLY ${next} ON ${table} ${unique[2]};`,
      PATIENCE,
      // The index takes the name of the constraint.
      `ALTER TABLE ${table} ${drop}ADD CONSTRAINT ${own} ${unique[1]} USING INDEX ${next};`,
    );
  }
  return lines(
    PATIENCE,
    `ALTER TABLE ${table} ${drop}ADD CONSTRAINT ${own} ${made} NOT VALID;`,
    `ALTER TABLE ${table} VALIDATE CONSTRAINT ${own};`,
  );
};

const trigger: Fix = (schema, { name, how, is, expected, made }) => {
  if (how === 'extra') return null;
  const { table, own } = parts(schema, name);
  if (how === 'changed' && is.slice(1) === expected.slice(1)) {
    return lines(PATIENCE, `ALTER TABLE ${table} ENABLE TRIGGER ${own};`);
  }
  return lines(PATIENCE, `${made.replace(/^CREATE TRIGGER/, 'CREATE OR REPLACE TRIGGER')};`);
};

const settings: Fix = (schema, { name, is, expected }) => {
  const [now, wanted] = [is, expected].map((list) => list.split(', ').filter(Boolean)) as [
    string[],
    string[],
  ];
  const nameOf = (option: string) => option.split('=')[0] as string;
  const set = wanted.filter((option) => !now.includes(option));
  const known = new Set(wanted.map(nameOf));
  const reset = now.map(nameOf).filter((option) => !known.has(option));
  const table = `${schema}.${quoted(name)}`;
  return lines(
    ...(set.length > 0 ? [`ALTER TABLE ${table} SET (${set.join(', ')});`] : []),
    ...(reset.length > 0 ? [`ALTER TABLE ${table} RESET (${reset.join(', ')});`] : []),
  );
};

const column: Fix = (schema, { name, how, is, expected, made }) => {
  if (how === 'extra') return null;
  const { table, own } = parts(schema, name);
  if (how === 'missing') {
    return lines(
      'A column that is NOT NULL and has no default can be added to an empty table only:',
      PATIENCE,
      `ALTER TABLE ${table} ADD COLUMN ${own} ${made};`,
    );
  }
  const [type, fallback] = made.split(' DEFAULT ');
  if (is.split(' DEFAULT ')[0] === expected.split(' DEFAULT ')[0]) {
    const change = fallback === undefined ? 'DROP DEFAULT' : `SET DEFAULT ${fallback}`;
    return lines(PATIENCE, `ALTER TABLE ${table} ALTER COLUMN ${own} ${change};`);
  }
  return `Give ${table} the column ${own} as ${type}; another type is a rewrite of the table, so stop the fleet first.`;
};

const FIXES: Readonly<Record<string, Fix>> = {
  index,
  constraint,
  trigger,
  column,
  'settings of table': settings,
  function: (_, { how, made }) => (how === 'extra' ? null : `${made.trimEnd()};`),
  sequence: (schema, { name, how }) =>
    how === 'extra' ? null : `CREATE SEQUENCE ${schema}.${quoted(name)};`,
};
