/**
 * What the methods of a Holdfast share: they ask through `src/inspect`, in read-only transactions, act through
 * `src/operate`, and refuse what cannot be meant before anything is sent.
 */
import type pg from 'pg';
import { reading } from '../inspect/reading.js';
import { HoldfastError, shown } from '../job/errors.js';
import type { Logger } from '../postgres/log.js';
import type { Names } from '../postgres/names.js';
import type { ConnectionOptions } from '../postgres/pool.js';
import { type Executor, engineExecutor } from '../postgres/queryable.js';

export interface Access {
  readonly schema: string;
  readonly connection: ConnectionOptions;
  readonly log: Logger;
  readonly maxPayloadBytes: number;
  /** Opened when it is first asked for. */
  readonly pool: () => pg.Pool;
  /** Checks the name. */
  readonly names: (queue: string) => Names;
}

/** Which queue a method is about. */
export interface QueueChoice {
  /** Default `inbox`. */
  readonly queue?: string;
}

export function ask<Value>(access: Access, work: (db: Executor) => Promise<Value>): Promise<Value> {
  return reading(access.pool(), work);
}

export const act = (access: Access): Executor => engineExecutor(access.pool(), { prepare: false });

/** A queue that is not there has no table, and that is how Postgres says it. */
export async function ofQueue<Value>(
  access: Access,
  { queue = 'inbox' }: QueueChoice,
  work: (names: Names) => Promise<Value>,
): Promise<Value> {
  const names = access.names(queue);
  try {
    return await work(names);
  } catch (error) {
    if ((error as { code?: unknown }).code !== '42P01') throw error;
    throw new HoldfastError(
      'QUEUE_UNKNOWN',
      `There is no queue "${queue}" in schema "${access.schema}"; nothing was done. ` +
        'Check the name, or make the queue with hf.createQueue().',
      { cause: error },
    );
  }
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const isId = (id: unknown): id is string => typeof id === 'string' && UUID.test(id);

/** As Postgres writes it. */
export function checkId(id: unknown): string {
  if (isId(id)) return id.toLowerCase();
  throw new HoldfastError(
    'OPTION_INVALID',
    `${shown(id)} is not the id of a job; nothing was done. Pass the id that enqueue() returned.`,
  );
}
