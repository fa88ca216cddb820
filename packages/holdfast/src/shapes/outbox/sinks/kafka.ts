/**
 * Events to Kafka. The key of a record is the key of the event, so Kafka keeps the order of a key too. A record is
 * acknowledged by all in-sync replicas. Kafka drops no second copies of a record that was sent again; consumers dedupe by
 * the header `holdfast-id`.
 */
import { DeadLetter } from '../../../job/errors/errors.js';
import { checkKnown, type Known } from '../../../job/options/known-options.js';
import { headersOf, type Message } from '../message.js';
import { type PublishOptions, type Sink, Unavailable } from '../sink.js';

/** What the sink calls of a `Producer` of `@platformatic/kafka` with `stringSerializers`. */
export interface KafkaProducerLike {
  /** Sends records; resolves once they are acknowledged. */
  send(options: { messages: KafkaRecord[]; acks: number }): Promise<unknown>;
}

/** One record, with texts only. */
export interface KafkaRecord {
  /** Where it goes. */
  topic: string;
  /** The key of the event. */
  key: string;
  /** The data of the event as JSON. */
  value: string;
  /** Its facts. */
  headers: Record<string, string>;
  /** When the event happened, in milliseconds. */
  timestamp: bigint;
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
const REFUSED = new Set([
  ...['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE', 'INVALID_TOPIC_EXCEPTION', 'INVALID_RECORD'],
]);
/** Those of one topic. */
const OF_TOPIC = new Set([
  ...['UNKNOWN_TOPIC_OR_PARTITION', 'LEADER_NOT_AVAILABLE', 'NOT_LEADER_OR_FOLLOWER'],
  ...['NOT_ENOUGH_REPLICAS', 'NOT_ENOUGH_REPLICAS_AFTER_APPEND', 'TOPIC_AUTHORIZATION_FAILED'],
]);

/**
 * A sink that publishes to Kafka.
 * @example
 * import { Producer, stringSerializers } from '@platformatic/kafka';
 *
 * const bootstrapBrokers = ['localhost:9092'];
 * const producer = new Producer({ clientId: 'shop', bootstrapBrokers, serializers: stringSerializers });
 * relay(worker, events, kafkaSink(producer, { topic: 'shop.events' }));
 */
export function kafkaSink(producer: KafkaProducerLike, options: KafkaSinkOptions = {}): Sink {
  checkKnown(options, OPTIONS, 'kafkaSink()', 'No sink was made.');
  const { topic = 'events' } = options;
  const topicOf = typeof topic === 'function' ? topic : () => topic;
  return {
    name: 'kafka',
    ...(typeof topic === 'function' && { target: topic }),
    async publish(message: Message, _: PublishOptions): Promise<void> {
      const record = {
        topic: topicOf(message),
        key: message.key,
        value: JSON.stringify(message.data ?? null),
        headers: headersOf(message),
        timestamp: BigInt(message.occurredAt.getTime()),
      };
      try {
        await producer.send({ messages: [record], acks: -1 });
      } catch (error) {
        throw judged(error as Error);
      }
    },
  };
}

function judged(error: Error): Error {
  const codes = new Set(codesOf(error));
  const refused = [...codes].find((code) => REFUSED.has(code));
  if (refused) return new DeadLetter(`Kafka refused the event: ${refused}`, { cause: error });
  const ofTopic = [...codes].find((code) => OF_TOPIC.has(code));
  return ofTopic ? new Unavailable(ofTopic, { scope: 'target', cause: error }) : error;
}

/** The client wraps the errors of a protocol in one another. */
function codesOf(error: unknown, depth = 0): string[] {
  if (typeof error !== 'object' || error === null || depth > 5) return [];
  const { apiId, cause, errors } = error as { apiId?: unknown; cause?: unknown; errors?: unknown };
  const inner = [cause, ...(Array.isArray(errors) ? errors : [])];
  const own = typeof apiId === 'string' ? [apiId] : [];
  return [...own, ...inner.flatMap((one) => codesOf(one, depth + 1))];
}
