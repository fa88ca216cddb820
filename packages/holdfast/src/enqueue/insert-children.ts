/**
 * Writing the children of a step of a workflow: jobs that name their parent. Their ids follow one another, so the first one
 * and their number say which they are.
 */
import { bucketOf } from '../job/key.js';
import { uuidv7 } from '../job/uuid.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { statement } from '../postgres/statement.js';
import { columnsOf, input, type NewJob } from './insert.js';

/** The queue, the run and the step that wait for a child. */
export interface Parent {
  readonly queue: string;
  readonly run: string;
  readonly step: string;
}

export const insertChildren = statement({
  name: 'insert_children',
  text: `
INSERT INTO holdfast.inbox (id, type, version, partition_key, partition_bucket, payload, headers,
  priority, max_attempts, available_at, group_key, limit_key, parked, parent)
SELECT c.*, jsonb_build_object('q', $14::text, 'r', $15::text, 's', $16::text,
  'n', ('x' || right(c.id::text, 12))::bit(48)::bigint - $17::text::bigint)
FROM (${input({ keyed: false })}) AS c`,
  columns: {},
});

const LOW = 12;

/** A first id, behind which there is room for as many as there may be. */
export function firstChild(): string {
  const id = uuidv7();
  return `${id.slice(0, -LOW)}0${id.slice(1 - LOW)}`;
}

export function childId(first: string, n: number): string {
  const low = Number.parseInt(first.slice(-LOW), 16) + n;
  return `${first.slice(0, -LOW)}${low.toString(16).padStart(LOW, '0')}`;
}

/** The same jobs under these ids. One without a key of its own has its id as its key. */
export function asChildren(jobs: readonly NewJob[], first: string, from: number): NewJob[] {
  return jobs.map((job, n) => {
    const id = childId(first, from + n);
    if (job.key !== job.id) return { ...job, id };
    return { ...job, id, key: id, bucket: bucketOf(job.group ?? id) };
  });
}

export async function writeChildren(
  db: Executor,
  names: Names,
  { queue, run, step }: Parent,
  jobs: readonly NewJob[],
  first: string,
): Promise<void> {
  const base = Number.parseInt(first.slice(-LOW), 16);
  await db.run(insertChildren, names, [...columnsOf(jobs), queue, run, step, String(base)]);
}
