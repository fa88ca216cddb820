/**
 * How to mend what has drifted, to be pasted. Indexes are made and dropped CONCURRENTLY, which blocks nobody. What needs
 * the table for a moment gives up after two seconds instead of making everybody wait behind it. What would rewrite a
 * table is not offered.
 */
import type { Difference } from './catalogue.js';
import { lines, PATIENCE } from './doctor.js';

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
