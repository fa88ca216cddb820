/**
 * An outbox: a queue that is read by key, in which each job is one event. `publish` writes events with your data, a relay
 * brings them to a sink, and the archive keeps what was published, to be published again.
 */
import type { EnqueueCall } from '../../api/options.js';
import type { Enqueued } from '../../enqueue/enqueue.js';
import { type Holdfast, partsOf } from '../../holdfast.js';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkInteger, type EnqueueItem, type JobDefinition, job } from '../../job/job.js';
import { checkType } from '../../job/key.js';
import type { Duration } from '../../job/options/duration.js';
import { checkChoice, checkKnown, type Known } from '../../job/options/known-options.js';
import type { QueueName } from '../../job/queue-name.js';
import { checkQueueName, type Names } from '../../postgres/names.js';
import { type Executor, executor } from '../../postgres/queryable.js';
import { checkLog, type EventLogLike, publishLogged } from './logged.js';
import type { EventOf, OutboxEvent, StoredEvent } from './message.js';
import { type ReplayEvents, type Replayed, replayEvents } from './replay.js';
import { isHeld } from './rows/held.js';

/**
 * Options of `outbox()`.
 * @example const events = outbox<{ 'order.paid': { total: number } }>(hf, { queue: 'outbox', refused: 'hold' });
 */
export interface OutboxOptions {
  /** The queue of the events, one of its own. Default `outbox`. */
  readonly queue?: QueueName;
  /**
   * What a refused event does to the later ones of its key: they wait until somebody retries or discards it (`hold`), or go
   * on (`free`). Default `hold`.
   */
  readonly refused?: 'hold' | 'free';
  /** How long published events can be replayed. Default: the `archiveRetention` of the queue, 7 days. */
  readonly retention?: Duration;
  /** A log of `eventLog()` to which each event is appended in the same transaction, for projections. Default: none. */
  readonly log?: EventLogLike;
}

/** What `outbox()` makes. */
export interface Outbox<Events> {
  /** The queue of the events. */
  readonly queue: QueueName;
  /** The definition of their jobs. */
  readonly job: JobDefinition<StoredEvent>;
  /**
   * Makes the queue, or gives it the settings of this outbox. Every process may call it at its start, after `migrate()`.
   * @example await events.create();
   */
  create(): Promise<void>;
  /**
   * Writes an event, or several in their order. With `tx` they commit with your transaction.
   * @example
   * await client.query('BEGIN');
   * await client.query('UPDATE orders SET paid = true WHERE id = 9182');
   * await events.publish({ type: 'order.paid', key: 'order:9182', data: { total: 25 } }, { tx: client });
   * await client.query('COMMIT');
   */
  publish(event: EventOf<Events>, call?: EnqueueCall): Promise<Enqueued>;
  publish(events: readonly EventOf<Events>[], call?: EnqueueCall): Promise<Enqueued[]>;
  /**
   * Publishes events again that the broker has had, in the order in which they were published. Each copy is a new message
   * with the id of the event.
   * @example await events.replay({ from: new Date('2026-11-18'), key: 'order:9182' });
   */
  replay(which: ReplayEvents): Promise<Replayed>;
  /** Whether a claim of an event still holds. */
  holds(id: string, fence: number): Promise<boolean>;
}

const OPTIONS = {
  ...{ queue: true, refused: true, retention: true, log: true },
} as const satisfies Known<Required<OutboxOptions>>;
const EVENT = {
  ...{ type: true, key: true, data: true, version: true, occurredAt: true },
  ...{ headers: true, idempotencyKey: true },
} as const satisfies Known<OutboxEvent>;

/** Longer than any wait of a relay: the time limit of a worker must not spend an attempt of an event. */
const TIMEOUT = '1d';

/**
 * An outbox: events that are written with your data and published in order per key. `Events` maps their types to their
 * data.
 * @example
 * const events = outbox<{ 'order.paid': { total: number } }>(hf, { queue: 'outbox' });
 * await events.create();
 */
export function outbox<Events = Record<string, unknown>>(
  hf: Holdfast,
  options: OutboxOptions = {},
): Outbox<Events> {
  checkKnown(options, OPTIONS, 'outbox()', 'No outbox was made.');
  const parts = partsOf(hf);
  if (!parts) throw invalid(`The first argument of outbox() must be what holdfast() made.`);
  const { queue = 'outbox', refused = 'hold', retention, log } = options;
  checkLog(log);
  checkChoice(refused, ['hold', 'free'], 'refused', 'No outbox was made.');
  const names: Names = { schema: parts.schema, queue: checkQueueName(queue) };
  const definition = job<StoredEvent>('event', { queue, timeout: TIMEOUT });
  const settings = { ordering: 'key', deadLetters: refused } as const;
  const { pool } = parts;
  const db = (): Executor => executor(pool());

  async function publish(
    given: EventOf<Events> | readonly EventOf<Events>[],
    call: EnqueueCall = {},
  ): Promise<Enqueued | Enqueued[]> {
    const all = (Array.isArray(given) ? given : [given]) as readonly OutboxEvent[];
    const items = all.map((event) => itemOf(definition, event));
    const written = log
      ? await publishLogged({ hf, pool, log }, all, items, call)
      : await hf.enqueueMany(items, call);
    return Array.isArray(given) ? written : (written[0] as Enqueued);
  }

  return {
    queue,
    job: definition,
    async create() {
      const made = await hf.createQueue(queue, settings);
      const kept = retention === undefined ? {} : { archiveRetention: retention };
      if (!made || retention !== undefined)
        await hf.configureQueue(queue, { ...settings, ...kept });
    },
    publish: publish as Outbox<Events>['publish'],
    replay: (which) => replayEvents(db(), names, which),
    holds: (id, fence) => isHeld(db(), names, id, fence),
  };
}

const NOT_PUBLISHED = 'nothing was published; use a name such as "order.paid"';

function itemOf(definition: JobDefinition<StoredEvent>, event: OutboxEvent): EnqueueItem {
  if (typeof event !== 'object' || event === null)
    throw invalid(`An event must be an object, not ${shown(event)}. Nothing was published.`);
  checkKnown(event, EVENT, 'An event', 'Nothing was published.');
  const { key, data, version = 1, occurredAt, headers, idempotencyKey } = event;
  const type = checkType(event.type, 'the type of an event', NOT_PUBLISHED);
  checkInteger(version, `version of event "${type}"`, 1, 2 ** 31 - 1);
  if (data === undefined)
    throw invalid(
      `data of event "${type}" is undefined, which JSON cannot hold. Write null. Nothing was published.`,
    );
  const isDate = occurredAt instanceof Date && !Number.isNaN(occurredAt.getTime());
  if (occurredAt !== undefined && !isDate)
    throw invalid(`occurredAt of event "${type}" must be a valid Date. Nothing was published.`);
  const stored: StoredEvent = {
    type,
    data,
    ...(version !== 1 && { version }),
    ...(occurredAt && { occurredAt: occurredAt.toISOString() }),
  };
  return definition.item(stored, {
    ...(key !== undefined && { partitionKey: key }),
    ...(headers !== undefined && { headers }),
    ...(idempotencyKey !== undefined && { idempotencyKey }),
  });
}
