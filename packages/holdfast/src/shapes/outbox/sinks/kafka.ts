/**
 * Events to Kafka. The key of a record is the key of the event, so Kafka keeps the order of a key too. A record is
 * acknowledged by all in-sync replicas. Kafka drops no second copies of a record that is sent again; consumers dedupe by
 * the header `holdfast-id`.
 */
import { DeadLetter } from '../../../job/errors/errors.js';
import { checkKnown, type Known } from '../../../job/options/known-options.js';
import { headersOf, type Message } from '../message.js';
import { checkClient, type PublishOptions, type Sink, Unavailable } from '../sink.js';

/** What the sink calls of a connected producer of `@confluentinc/kafka-javascript` (its KafkaJS API) or of `kafkajs`. */
export interface KafkaProducerLike {
  /** Sends records; resolves once they are acknowledged. */
  send(record: { topic: string; messages: KafkaRecord[] }): Promise<unknown>;
}

/** One record, with texts only. */
export interface KafkaRecord {
  /** The key of the event. */
  key: string;
  /** The data of the event as JSON. */
  value: string;
  /** Its facts. */
  headers: Record<string, string>;
  /** When the event happened, in milliseconds. */
  timestamp: string;
}

/**
 * Options of `kafkaSink()`.
 * @example kafkaSink(producer, { topic: ({ type }) => `shop.${type}` });
 */
export interface KafkaSinkOptions {
  /** The topic of an event. Default `events`. */
  readonly topic?: string | ((message: Message) => string);
}

const OPTIONS = { topic: true } as const satisfies Known<Required<KafkaSinkOptions>>;

/** Codes of the protocol that say: this record, never. */
const REFUSED = new Map([
  [10, 'it is larger than the topic allows'],
  [17, 'the topic has no valid name'],
  [18, 'it is larger than a segment of the topic'],
  [87, 'the topic does not take such a record'],
]);
/** Those of one topic: unknown, without a leader, without enough replicas, not allowed. */
const OF_TOPIC = new Set([3, 5, 6, 19, 20, 29]);

/**
 * A sink that publishes to Kafka. Let the producer retry nothing by itself: the relay does.
 * @example
 * // producer is kafka.producer({ kafkaJS: { acks: -1, retry: { retries: 0 } } }), connected
 * relay(worker, events, kafkaSink(producer, { topic: 'shop.events' }));
 */
export function kafkaSink(producer: KafkaProducerLike, options: KafkaSinkOptions = {}): Sink {
  checkClient(producer, 'send', 'kafkaSink()', 'a connected producer');
  checkKnown(options, OPTIONS, 'kafkaSink()', 'No sink was made.');
  const { topic = 'events' } = options;
  const topicOf = typeof topic === 'function' ? topic : () => topic;
  return {
    name: 'kafka',
    ...(typeof topic === 'function' && { target: topic }),
    async publish(message: Message, _: PublishOptions): Promise<void> {
      const record: KafkaRecord = {
        key: message.key,
        value: JSON.stringify(message.data ?? null),
        headers: headersOf(message),
        timestamp: String(message.occurredAt.getTime()),
      };
      try {
        await producer.send({ topic: topicOf(message), messages: [record] });
      } catch (error) {
        throw judged(error as Error);
      }
    },
  };
}

function judged(error: Error): Error {
  const codes = codesOf(error);
  const refused = codes.map((code) => REFUSED.get(code)).find((reason) => reason !== undefined);
  if (refused) return new DeadLetter(`Kafka refused the event: ${refused}`, { cause: error });
  if (!codes.some((code) => OF_TOPIC.has(code))) return error;
  return new Unavailable(error.message, { scope: 'target', cause: error });
}

/** Clients wrap the errors of the protocol in others. */
function codesOf(error: unknown, depth = 0): number[] {
  if (typeof error !== 'object' || error === null || depth > 5) return [];
  const { code, cause, originalError, errors } = error as Readonly<Record<string, unknown>>;
  const inner = [cause, originalError, ...(Array.isArray(errors) ? errors : [])];
  const own = typeof code === 'number' ? [code] : [];
  return [...own, ...inner.flatMap((one) => codesOf(one, depth + 1))];
}
