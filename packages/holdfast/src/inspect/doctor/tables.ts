/**
 * What was done to the tables that neither the migrations nor the engine do: not logged, rows hidden, not frozen for too
 * long, positions beyond the sequence that deals them out, buckets that do not fit their key. Of the rows of each queue
 * a bounded number is read, the oldest and the newest.
 */
import { bucketOf } from '../../job/key.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int4, int8, type Row, statement, text } from '../../postgres/statement.js';
import { type Answer, asks, asksOne } from '../reading/asks.js';
import { many } from '../reading/words.js';
import { judgeIds } from './cause/clocks.js';
import { type Finding, type Limits, lines, note, ok, PATIENCE, problem } from './doctor.js';
import { quoted } from './drift.js';

export const askTables = statement({
  name: 'doctor_tables',
  text: `
SELECT c.relname::text AS table, c.relpersistence = 'u' AS unlogged, c.relrowsecurity AS row_security,
  c.relforcerowsecurity AS forced,
  -- Not asked of the file, for which a lock would be needed.
  c.relpages::bigint * current_setting('block_size')::integer AS bytes,
  age(c.relfrozenxid)::bigint AS xids, mxid_age(c.relminmxid)::bigint AS multixacts
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND c.relkind = 'r'
ORDER BY c.relname`,
  columns: {
    table: text,
    unlogged: bool,
    row_security: bool,
    forced: bool,
    bytes: int8,
    xids: int8,
    multixacts: int8,
  },
});

export type TableFacts = Row<typeof askTables.columns>;

export function readTables(db: Executor, schema: string): Promise<TableFacts[]> {
  return db.run(askTables, { schema, queue: 'inbox' }, [schema]);
}

/** What an emptied table means, by the end of its name. */
const LOSSES: readonly [RegExp, string][] = [
  [
    /_idempotency$/,
    'an enqueue that is repeated with its key is accepted again, and its job runs twice.',
  ],
  [/_effects$/, 'a job that is run again repeats the effects that once() had done.'],
  [/_archive$/, 'what is known of finished jobs is lost.'],
  [/^audit$/, 'the record of what operators did is lost.'],
];

const lossOf = (table: string) =>
  LOSSES.find(([name]) => name.test(table))?.[1] ??
  'accepted jobs, or what governs them, are lost.';

export function judgeTables(schema: string, tables: readonly TableFacts[]): Finding[] {
  const path = (table: string) => `${schema}.${quoted(table)}`;
  const unlogged = tables.filter((one) => one.unlogged);
  const hidden = tables.filter((one) => one.rowSecurity);
  return [
    ...(unlogged.length === 0 ? [ok('unlogged tables', 'none')] : []),
    ...unlogged.map(({ table, bytes }) =>
      problem(
        'unlogged tables',
        `${path(table)} is UNLOGGED.`,
        `A crash of the server empties it, and a standby does not have it: ${lossOf(table)}`,
        lines(
          `There is no way that blocks nobody: it is written anew (${Math.ceil(bytes / 1024 / 1024)} MB) and locked meanwhile. In a quiet minute:`,
          PATIENCE,
          `ALTER TABLE ${path(table)} SET LOGGED;`,
        ),
      ),
    ),
    ...(hidden.length === 0 ? [ok('row level security', 'off')] : []),
    ...hidden.map(({ table, forced }) =>
      problem(
        'row level security',
        `Row level security is on for ${path(table)}${forced ? ', also for its owner' : ''}.`,
        'Rows that no policy shows are not there for a worker: jobs are passed over without a word, and enqueues are refused.',
        lines(
          PATIENCE,
          `ALTER TABLE ${path(table)} DISABLE ROW LEVEL SECURITY${forced ? ', NO FORCE ROW LEVEL SECURITY' : ''};`,
        ),
      ),
    ),
  ];
}

export const readFrozen = asksOne({
  name: 'doctor_frozen',
  text: `
SELECT d.datname::text AS database, d.datname = current_database() AS here, age(d.datfrozenxid)::bigint AS xids,
  mxid_age(d.datminmxid)::bigint AS multixacts
FROM pg_database AS d
ORDER BY greatest(age(d.datfrozenxid), mxid_age(d.datminmxid)) DESC
LIMIT 1`,
  columns: { database: text, here: bool, xids: int8, multixacts: int8 },
});

export type Frozen = Answer<typeof readFrozen>;

/** The oldest of all databases counts: when one of them is at the end, none can be written to. */
export function judgeFrozen(
  schema: string,
  oldest: Frozen,
  tables: readonly TableFacts[],
  limits: Limits,
): Finding[] {
  const check = 'wraparound';
  const age = Math.max(oldest.xids, oldest.multixacts);
  if (age < limits.wraparoundXids)
    return [ok(check, `${age.toLocaleString('en')} transactions since the oldest freeze`)];
  const own = tables.filter((one) => Math.max(one.xids, one.multixacts) >= limits.wraparoundXids);
  const vacuums = own.map(({ table }) => `VACUUM (FREEZE) ${schema}.${table};`);
  return [
    problem(
      check,
      `The database "${oldest.database}" has rows from ${age.toLocaleString('en')} transactions ago that are not frozen.`,
      'At about two billion the server stops taking writes, in all its databases: nothing could be enqueued, claimed or settled.',
      lines(
        `Look at "vacuum horizon" first: what holds it back holds this back as well. Then, in the database "${oldest.database}":`,
        ...(oldest.here && vacuums.length > 0 ? vacuums : ['VACUUM (FREEZE);']),
      ),
    ),
  ];
}

const ROWS = 500;

const ENDS = (columns: string) => `
  (SELECT ${columns} FROM holdfast.inbox AS i ORDER BY i.id LIMIT ${ROWS})
  UNION ALL (SELECT ${columns} FROM holdfast.inbox AS i ORDER BY i.id DESC LIMIT ${ROWS})`;

export const readPositions = asksOne({
  name: 'doctor_positions',
  text: `
SELECT s.readable, CASE WHEN s.readable THEN coalesce(pg_sequence_last_value('holdfast.inbox_position_seq'), 0) END AS dealt,
  (SELECT max(e.position) FROM (${ENDS('i.position')}) AS e) AS highest
FROM (SELECT has_sequence_privilege('holdfast.inbox_position_seq', 'SELECT, USAGE') AS readable) AS s`,
  columns: { readable: bool, dealt: int8.orNull, highest: int8.orNull },
});

export type Positions = Answer<typeof readPositions>;

export function judgePositions({ schema, queue }: Names, positions: Positions): Finding {
  const check = 'sequence';
  const { dealt, highest } = positions;
  const name = `${schema}.${queue}_position_seq`;
  if (dealt === null) {
    return note(
      check,
      `${name} was not looked at: this user may not read it.`,
      'A sequence that was not restored with its table would not be noticed.',
      'Run the doctor as the owner of the schema.',
    );
  }
  if (highest === null || highest <= dealt) return ok(check, `${queue}: ahead of its rows`);
  return problem(
    check,
    `The sequence ${name} stands at ${dealt.toLocaleString('en')}, and jobs of "${queue}" have positions up to ${highest.toLocaleString('en')}.`,
    'The rows were copied or restored without it. New jobs are placed before older ones: the order of a key is broken.',
    lines(`SELECT setval('${name}', (SELECT max(position) FROM ${schema}.${queue}));`),
  );
}

export const readBuckets = asks({
  name: 'doctor_buckets',
  text: `
SELECT e.id::text AS id, e.partition_key, e.group_key, e.partition_bucket::integer AS partition_bucket,
  (extract(epoch FROM e.created_at) * 1000)::bigint AS created_ms
FROM (${ENDS('i.id, i.partition_key, i.group_key, i.partition_bucket, i.created_at')}) AS e`,
  columns: {
    ...{ id: text, partition_key: text, group_key: text.orNull, partition_bucket: int4 },
    created_ms: int8,
  },
});

export type BucketRow = Answer<typeof readBuckets>;

/** And the clocks of those who enqueued them. */
export function judgeBuckets(names: Names, keyed: boolean, rows: readonly BucketRow[]): Finding[] {
  return [bucketsOf(names, keyed, rows), ...judgeIds(names.queue, rows)];
}

function bucketsOf({ schema, queue }: Names, keyed: boolean, rows: readonly BucketRow[]): Finding {
  const check = 'buckets';
  const bucketFor = (row: BucketRow) => bucketOf(row.groupKey ?? row.partitionKey);
  const wrong = rows.filter((row) => row.partitionBucket !== bucketFor(row));
  const [one] = wrong;
  if (!one) return ok(check, `${queue}: they fit their keys`);
  const table = `${schema}.${queue}`;
  const wanted = `${schema}.bucket_of(coalesce(group_key, partition_key))`;
  return (keyed ? problem : note)(
    check,
    `Of the ${many(new Set(rows.map(({ id }) => id)).size, 'job')} of "${queue}" that were read, ${new Set(wrong.map(({ id }) => id)).size} have a bucket that does not fit their key: ${one.id} has ${one.partitionBucket}, and its ${one.groupKey === null ? 'key' : 'group'} "${one.groupKey ?? one.partitionKey}" belongs to ${bucketFor(one)}.`,
    keyed
      ? 'Jobs of one key in two buckets run beside each other and out of order. Something else than Holdfast wrote them.'
      : 'The queue is read by time, so nothing depends on it yet. Something else than Holdfast wrote them.',
    lines(
      `Let the producer leave out partition_bucket, or write ${wanted}. For what waits:`,
      `UPDATE ${table} SET partition_bucket = ${wanted} WHERE partition_bucket <> ${wanted} AND status <> 'processing';`,
    ),
  );
}
