/**
 * An event on its way: as a program publishes it, as its job stores it, and as a sink gets it. The id of a message is that
 * of its job. The copy of a replayed event is another message and keeps the id of the event.
 */
import type { QueueName } from '../../job/queue-name.js';
import type { HandlerContext } from '../../worker/run/handler-context.js';

/** One event, to be published. */
export interface OutboxEvent<Type extends string = string, Data = unknown> {
  /** What happened, such as `order.paid`. */
  readonly type: Type;
  /** About what it is, such as `order:9182`. Events of one key are published in order. Default: a key of its own. */
  readonly key?: string;
  /** What consumers get, as JSON. */
  readonly data: Data;
  /** The version of the shape of `data`. Default 1. */
  readonly version?: number;
  /** When it happened. Default: when it was published. */
  readonly occurredAt?: Date;
  /** Travels with the event, as for `hf.enqueue()`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** A second event of the same key is not published, as for `hf.enqueue()`. */
  readonly idempotencyKey?: string;
}

/** The events of an outbox, from a map of their types to their data. */
export type EventOf<Events> = {
  [Type in keyof Events & string]: OutboxEvent<Type, Events[Type]>;
}[keyof Events & string];

/** What the job of an event stores. */
export interface StoredEvent {
  /** What happened. */
  readonly type: string;
  /** What consumers get. */
  readonly data: unknown;
  /** The version of the shape of `data`; left out: 1. */
  readonly version?: number;
  /** ISO time; left out: when the job was enqueued. */
  readonly occurredAt?: string;
  /** Of a replayed event, the id under which it was published first. */
  readonly id?: string;
}

/** One event as a sink gets it. */
export interface Message {
  /** The id of the event. A copy of a replayed event has the id of the first one: consumers dedupe by it. */
  readonly id: string;
  /** The id of this message, by which a broker drops second copies. It is `id` unless the event was replayed. */
  readonly messageId: string;
  /** What happened. */
  readonly type: string;
  /** About what it is. */
  readonly key: string;
  /** The version of the shape of `data`. */
  readonly version: number;
  /** When it happened. */
  readonly occurredAt: Date;
  /** The generation of the claim: of two copies of a message, the later one has the greater fence. */
  readonly fence: number;
  /** Whether it is the copy of an event that was published before. */
  readonly replayed: boolean;
  /** The outbox it came from. */
  readonly queue: QueueName;
  /** The headers it was published with, and `traceparent` if you trace. */
  readonly headers: Readonly<Record<string, string>>;
  /** What consumers get. */
  readonly data: unknown;
}

export function messageOf(context: HandlerContext<StoredEvent>): Message {
  const { payload, id, fenceToken, headers, queue, partitionKey } = context;
  const { type, data, version = 1, occurredAt, id: first } = payload;
  return {
    id: first ?? id,
    messageId: id,
    type,
    key: partitionKey,
    version,
    occurredAt: occurredAt === undefined ? context.createdAt : new Date(occurredAt),
    fence: fenceToken,
    replayed: first !== undefined,
    queue,
    headers,
    data,
  };
}

/**
 * The headers of a message as texts, for brokers that carry headers: yours, `traceparent`, and `holdfast-id`, `-type`,
 * `-key`, `-version`, `-occurred-at` and `-fence`. A key with characters beyond ASCII is percent-encoded.
 * @example const sink: Sink = { name: 'mine', publish: async (message) => broker.send(message.data, headersOf(message)) };
 */
export function headersOf(message: Message): Record<string, string> {
  return {
    ...message.headers,
    'holdfast-id': message.id,
    'holdfast-type': message.type,
    'holdfast-key': asciiOf(message.key),
    'holdfast-version': String(message.version),
    'holdfast-occurred-at': message.occurredAt.toISOString(),
    'holdfast-fence': String(message.fence),
    ...(message.replayed && { 'holdfast-replayed': '1' }),
  };
}

/** As CloudEvents encode headers: what is not printable ASCII, and `%` and `"`, as UTF-8 with percent signs. */
export const asciiOf = (text: string) =>
  text.replace(/[^\x21\x23\x24\x26-\x7e]+/gu, (some) => encodeURIComponent(some));
