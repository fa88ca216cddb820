/** What the methods of a Holdfast share: they ask through `inspect`, in read-only transactions, and act through `operate`. */

import type pg from 'pg';
import { type Part, type ReadOptions, reading } from '../inspect/reading/reading.js';
import type { QueueName } from '../job/queue-name.js';
import type { ConnectionOptions } from '../postgres/connect/pool.js';
import { inQueue } from '../postgres/in-queue.js';
import type { Logger } from '../postgres/log/log.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';

export interface Access {
  readonly schema: string;
  readonly connection: ConnectionOptions;
  readonly log: Logger;
  readonly maxPayloadBytes: number;
  /** Opened when it is first asked for. */
  readonly pool: () => pg.Pool;
  /** Checks the name. */
  readonly names: (queue: string) => Names;
  /** Of a question. Default: those of `reading`. */
  readonly limits?: { readonly limitMs: number; readonly lockMs: number };
}

/** Which queue a method is about. */
export interface QueueChoice {
  /** Default `inbox`. */
  readonly queue?: QueueName;
}

export function ask<Value>(
  access: Access,
  work: (db: Executor, part: Part) => Promise<Value>,
  options: Pick<ReadOptions, 'snapshot'> = {},
): Promise<Value> {
  return reading(access.pool(), work, { schema: access.schema, ...access.limits, ...options });
}

/** `work` on the queue that was chosen; one that is not there is an error that says so. */
export async function ofQueue<Value>(
  access: Access,
  { queue = 'inbox' }: QueueChoice,
  work: (names: Names) => Promise<Value>,
): Promise<Value> {
  const names = access.names(queue);
  return inQueue(names, work(names));
}
