/**
 * The whole system for a user who may not read all of it: what it may read, and which grants are missing for the rest.
 * One queue without its grants must not hide the others.
 */
import type { Executor } from '../../postgres/queryable.js';
import type { Part } from '../reading/reading.js';
import { type Rights, rightsOf } from '../reading/rights.js';
import { type OverviewOptions, openOverview, type PartialOverview } from './overview.js';
import { listQueues } from './queues.js';

/** How questions are asked: each call is a transaction of its own, because a refusal ends one. */
export type Read = <Value>(work: (db: Executor, part: Part) => Promise<Value>) => Promise<Value>;

export const isDenied = (error: unknown): boolean =>
  (error as { code?: unknown } | null)?.code === '42501';

export interface ReadableOverview {
  /** Null: this user may not even read which queues and workers there are. */
  readonly seen: PartialOverview | null;
  /** Null: nothing is missing. */
  readonly lacking: Rights | null;
  /** What the database said, if something is missing. */
  readonly denied: unknown;
}

export async function readableOverview(
  read: Read,
  schema: string,
  options: OverviewOptions = {},
): Promise<ReadableOverview> {
  const { queues: only } = options;
  const look = (queues?: readonly string[]) =>
    read((db, part) => openOverview(db, part, schema, { ...options, queues }));
  try {
    return { seen: await look(only), lacking: null, denied: null };
  } catch (denied) {
    if (!isDenied(denied)) throw denied;
    const lacking = await read((db) => rightsOf(db, schema, 'viewer'));
    // Something else was refused.
    if (lacking.missing.length === 0) throw denied;
    if (lacking.missing.some(({ queue }) => queue === null)) return { seen: null, lacking, denied };
    const queues = (await read((db) => listQueues(db, schema))).map(({ name }) => name);
    const readable = queues.filter(
      (name) =>
        (only?.includes(name) ?? true) && !lacking.missing.some((one) => one.queue === name),
    );
    return { seen: await look(readable), lacking, denied };
  }
}
