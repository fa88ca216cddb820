/**
 * Publishing to an outbox that has a log: the jobs of the events and their rows in the log are one transaction, the
 * caller's or one of our own. An event has the same id in both, so what reads both can tell.
 */
import type pg from 'pg';
import type { EnqueueCall } from '../../api/options.js';
import type { Enqueued } from '../../enqueue/enqueue.js';
import type { Holdfast } from '../../holdfast.js';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import type { EnqueueItem } from '../../job/job.js';
import { BEGIN_BOUNDED } from '../../postgres/connect/bounded.js';
import { withTransaction } from '../../postgres/connect/pool.js';
import type { Transaction } from '../../postgres/queryable.js';
import type { OutboxEvent } from './message.js';

/** An event as it is appended to a log. */
export interface AppendedEvent {
  /** That of the job. */
  readonly id: string;
  /** What happened. */
  readonly type: string;
  /** About what it is. */
  readonly key: string;
  /** What was published. */
  readonly data: unknown;
  /** The version of the shape of `data`; left out: 1. */
  readonly version?: number;
  /** When it happened; left out: now. */
  readonly occurredAt?: Date;
  /** What was published with it. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** What `publish()` calls of a log of `eventLog()` of `holdfast/projections`. */
export interface EventLogLike {
  /** Appends events in a transaction. */
  append(
    events: readonly AppendedEvent[],
    options: {
      /** The transaction. */
      readonly tx: Transaction;
    },
  ): Promise<unknown>;
}

interface LoggedDeps {
  readonly hf: Pick<Holdfast, 'enqueueMany'>;
  readonly pool: () => pg.Pool;
  readonly log: EventLogLike;
}

export function checkLog(log: unknown): void {
  if (log === undefined || typeof (log as EventLogLike | null)?.append === 'function') return;
  throw invalid(`log of outbox() is what eventLog() makes, not ${shown(log)}. No outbox was made.`);
}

export function publishLogged(
  { hf, pool, log }: LoggedDeps,
  events: readonly OutboxEvent[],
  items: readonly EnqueueItem[],
  call: EnqueueCall,
): Promise<Enqueued[]> {
  const write = async (tx: Transaction): Promise<Enqueued[]> => {
    const written = await hf.enqueueMany(items, { ...call, tx });
    // One that was published before is in the log already.
    const added = written.flatMap(({ id, deduplicated }, at) =>
      deduplicated ? [] : [loggedOf(events[at] as OutboxEvent, id)],
    );
    if (added.length > 0) await log.append(added, { tx });
    return written;
  };
  if ('tx' in call) return write(call.tx as Transaction);
  if (call.onFull === 'wait')
    throw invalid(
      "onFull: 'wait' would hold the transaction open that an outbox with a log needs. Nothing was published.",
    );
  return withTransaction(pool(), (client) => write(client as Transaction), BEGIN_BOUNDED);
}

function loggedOf(event: OutboxEvent, id: string): AppendedEvent {
  const { type, key = id, data, version, occurredAt, headers } = event;
  return {
    ...{ id, type, key, data: data ?? null },
    ...(version !== undefined && { version }),
    ...(occurredAt && { occurredAt }),
    ...(headers && { headers }),
  };
}
