/**
 * What all settles have in common. Each takes a batch and is fenced by owner, generation, state and a live lease. A job
 * that is not returned was not moved: somebody else owns it now, or its lease ran out.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { type Param, plainArray } from '../postgres/statement.js';

export interface Settled {
  readonly id: string;
  readonly generation: number;
  /** The job that ran before this one in a run of its key, as long as it may not be settled. */
  readonly after?: string | null;
  /** Whether that one turned out to be lost; asked just before the statement is sent. */
  readonly broken?: () => boolean;
  /** What its handler returned, as JSON. */
  readonly result?: string | null;
}

/** Returns the ids of the jobs that it moved. */
export type Settle<Job extends Settled> = (
  db: Executor,
  names: Names,
  workerId: string,
  jobs: readonly Job[],
) => Promise<string[]>;

/** The first three parameters of every settle. */
export function fence(workerId: string, jobs: readonly Settled[]): Param[] {
  return [
    workerId,
    plainArray(jobs.map(({ id }) => id)),
    plainArray(jobs.map(({ generation }) => generation)),
  ];
}

/**
 * What a settle says of each job: a JSON object by id, parsed once and looked up for each row. Not lists to join with: the
 * join would read all of them for every job, and 1,000 errors of 9 kB took seconds.
 */
export function byId<Job extends Settled>(
  jobs: readonly Job[],
  factsOf: (job: Job) => string | Readonly<Record<string, string | number>>,
): string {
  return JSON.stringify(Object.fromEntries(jobs.map((job) => [job.id, factsOf(job)])));
}

/** What the fourth parameter says of the row. Each mention parses it, so it is short; long texts are the fifth. */
export const fact = (name: string) => `((SELECT $4::text::jsonb) -> i.id::text ->> '${name}')`;
export const ERROR = '((SELECT $5::text::jsonb) ->> i.id::text)';
export const DELAY_MS = `${fact('delay')}::bigint`;

/** For RETURNING: since when it is due although its attempt named a later time; NULL: it waits for that. */
export const WOKEN_AT = `CASE WHEN ${DELAY_MS} > 0 AND i.available_at <= now() THEN i.available_at END`;

export interface Woken {
  readonly wokenAt: string | null;
  readonly partitionBucket: number;
}

export const idsOf = (rows: readonly { readonly id: string }[]) => rows.map(({ id }) => id);
