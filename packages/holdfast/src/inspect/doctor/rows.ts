/**
 * Rows that the engine did not write like this: positions beyond the sequence that deals them out, and buckets that do
 * not fit their key. Of each queue the oldest and the newest jobs are read, a bounded number of them.
 */
import { bucketOf } from '../../job/key.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int4, int8, type Row, statement, text } from '../../postgres/statement.js';
import { many } from '../reading/words.js';
import { type Finding, lines, note, ok, problem } from './doctor.js';

const ROWS = 500;

const ENDS = (columns: string) => `
  (SELECT ${columns} FROM holdfast.inbox AS i ORDER BY i.id LIMIT ${ROWS})
  UNION ALL (SELECT ${columns} FROM holdfast.inbox AS i ORDER BY i.id DESC LIMIT ${ROWS})`;

export const askPositions = statement({
  name: 'doctor_positions',
  text: `
SELECT s.readable, CASE WHEN s.readable THEN coalesce(pg_sequence_last_value('holdfast.inbox_position_seq'), 0) END AS dealt,
  (SELECT max(e.position) FROM (${ENDS('i.position')}) AS e) AS highest
FROM (SELECT has_sequence_privilege('holdfast.inbox_position_seq', 'SELECT, USAGE') AS readable) AS s`,
  columns: { readable: bool, dealt: int8.orNull, highest: int8.orNull },
});

export type Positions = Row<typeof askPositions.columns>;

export async function readPositions(db: Executor, names: Names): Promise<Positions> {
  const [row] = await db.run(askPositions, names, []);
  return row as Positions;
}

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

export const askBuckets = statement({
  name: 'doctor_buckets',
  text: `
SELECT e.id::text AS id, e.partition_key, e.group_key, e.partition_bucket::integer AS partition_bucket
FROM (${ENDS('i.id, i.partition_key, i.group_key, i.partition_bucket')}) AS e`,
  columns: { id: text, partition_key: text, group_key: text.orNull, partition_bucket: int4 },
});

export type BucketRow = Row<typeof askBuckets.columns>;

export function readBuckets(db: Executor, names: Names): Promise<BucketRow[]> {
  return db.run(askBuckets, names, []);
}

export function judgeBuckets(
  { schema, queue }: Names,
  keyed: boolean,
  rows: readonly BucketRow[],
): Finding {
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
