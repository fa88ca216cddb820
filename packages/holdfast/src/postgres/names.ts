/**
 * Names: which schema and which queue table a statement speaks of. Every statement is written against `holdfast.inbox`, so
 * that it can be found with grep and pasted into psql; `loadText` turns it towards others. The names are checked first and
 * quoted always, so that no name can carry SQL with it. A queue's side tables follow its name.
 */
import { HoldfastError } from '../job/errors/errors.js';

export interface Names {
  readonly schema: string;
  readonly queue: string;
}

const SCHEMA_PATTERN = /^[a-z_][a-z0-9_]{0,62}$/;
const QUEUE_PATTERN = /^[a-z][a-z0-9_]{0,39}$/;
/** Tables and types that are the schema's own, and the endings of a queue's side tables. */
const TABLES = [
  ...['workers', 'queues', 'migrations', 'functions', 'fleet', 'audit', 'schedules'],
  ...['limits', 'rates', 'permits', 'on_dead_letter', 'key_windows'],
  ...['webhook_endpoints', 'webhook_secrets', 'webhook_health', 'webhook_log'],
  ...['event_log', 'projections', 'projection_cursors', 'projection_stops', 'projection_parked'],
];
/** A table has a type of its own name. */
const TYPES = ['ordering', 'bucket', 'priority', 'positive'];
const TAKEN = new Set([...TABLES, ...TYPES]);
const SIDE_TABLE =
  /_(archive(_\d+)?|claims|idempotency|effects|unique|steps|signals|children|enqueue|status|position_seq|wake)$/;

export function checkSchemaName(name: unknown): string {
  if (typeof name === 'string' && SCHEMA_PATTERN.test(name) && !name.startsWith('pg_')) return name;
  throw new HoldfastError(
    'NAME_INVALID',
    `The schema name ${JSON.stringify(name)} cannot be used and nothing was done. ` +
      'Use lower-case letters, digits and underscores (at most 63, not starting with a digit or "pg_").',
  );
}

export function checkQueueName(name: unknown): string {
  const usable =
    typeof name === 'string' &&
    QUEUE_PATTERN.test(name) &&
    !TAKEN.has(name) &&
    !SIDE_TABLE.test(name) &&
    !name.startsWith('pg_');
  if (usable) return name;
  throw new HoldfastError(
    'NAME_INVALID',
    `The queue name ${JSON.stringify(name)} cannot be used and nothing was done. ` +
      'Use lower-case letters, digits and underscores (at most 40, starting with a letter), ' +
      `none of ${[...TAKEN].join(', ')}, and no ending such as _archive that names a side table.`,
  );
}

export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function quoteLiteral(value: string): string {
  return `'${value.replaceAll("'", "''")}'`;
}

/** `holdfast.notify` is a setting of a session, the same for every schema. */
const NAME_IN_TEXT =
  /\bholdfast\b(?!\.notify\b)(?:\.([a-z_0-9]+))?|'inbox'|\binbox(?=_[a-z_]+_(?:idx|check|pkey)\b)/g;

/** Turn a statement's text towards a schema and a queue. Both names must have been checked. */
export function loadText(text: string, names: Names): string {
  if (names.schema === 'holdfast' && names.queue === 'inbox') return text;
  return text.replace(NAME_IN_TEXT, (match, table: string | undefined) => {
    if (match === "'inbox'") return `'${names.queue}'`;
    if (match === 'inbox') return names.queue;
    if (table === undefined) return quoteName(names.schema);
    const own = table.replace(/^inbox(?!_status\b)/, names.queue);
    return `${quoteName(names.schema)}.${quoteName(own)}`;
  });
}
