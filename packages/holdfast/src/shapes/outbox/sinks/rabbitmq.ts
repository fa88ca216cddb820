/**
 * Events to RabbitMQ, with confirms and `mandatory`: an event is published once a broker has confirmed it, and one that no
 * queue takes is refused. RabbitMQ drops no second copies; consumers dedupe by `message_id`.
 */
import { setImmediate } from 'node:timers/promises';
import { DeadLetter } from '../../../job/errors/errors.js';
import { checkInteger } from '../../../job/job.js';
import { checkKnown, type Known } from '../../../job/options/known-options.js';
import { headersOf, type Message } from '../message.js';
import { checkClient, type PublishOptions, type Sink, Unavailable } from '../sink.js';

/** What the sink calls of a `Connection` of `rabbitmq-client`. */
export interface RabbitConnectionLike {
  /** Makes a publisher; the sink makes one, with confirms. */
  createPublisher(options: { confirm: boolean; maxAttempts: number }): RabbitPublisherLike;
}

/** What the sink calls of a publisher of `rabbitmq-client`. */
export interface RabbitPublisherLike {
  /** Sends one message; resolves once it is confirmed. */
  // biome-ignore lint/suspicious/noExplicitAny: the envelope is a type of the client
  send(envelope: any, body: Buffer): Promise<void>;
  /** Tells of messages that no queue took. */
  on(event: 'basic.return', listener: (message: { messageId?: string }) => void): unknown;
  /** Gives its channel back. */
  close(): Promise<void>;
}

/** What `rabbitSink()` makes. */
export interface RabbitSink extends Sink {
  /**
   * Gives its channel back, after the worker has stopped. `close()` of the connection waits for that.
   * @example
   * const sink = rabbitSink(rabbit, { exchange: 'events' });
   * await worker.stop();
   * await sink.close();
   */
  close(): Promise<void>;
}

/**
 * Options of `rabbitSink()`.
 * @example rabbitSink(rabbit, { exchange: 'events', routingKey: ({ type, key }) => `${type}.${key}` });
 */
export interface RabbitSinkOptions {
  /** The exchange. Default: the default exchange, whose routing keys are names of queues. */
  readonly exchange?: string;
  /** The routing key of an event. Default: its type. */
  readonly routingKey?: (message: Message) => string;
  /** Larger bodies are refused here: RabbitMQ would close the channel. Default 16 MiB, as RabbitMQ 4 has it. */
  readonly maxBytes?: number;
}

const OPTIONS = { exchange: true, routingKey: true, maxBytes: true } as const satisfies Known<
  Required<RabbitSinkOptions>
>;

/**
 * A sink that publishes to RabbitMQ.
 * @example
 * // rabbit is new Connection('amqp://localhost') of rabbitmq-client
 * relay(worker, events, rabbitSink(rabbit, { exchange: 'events' }));
 */
export function rabbitSink(
  connection: RabbitConnectionLike,
  options: RabbitSinkOptions = {},
): RabbitSink {
  checkClient(connection, 'createPublisher', 'rabbitSink()', 'a Connection of rabbitmq-client');
  checkKnown(options, OPTIONS, 'rabbitSink()', 'No sink was made.');
  const { exchange = '', routingKey = ({ type }) => type } = options;
  const maxBytes = checkInteger(options.maxBytes ?? 16 * 1024 * 1024, 'maxBytes', 1, 2 ** 30);
  const publisher = connection.createPublisher({ confirm: true, maxAttempts: 1 });
  const returned = new Set<string>();
  publisher.on('basic.return', ({ messageId }) => {
    if (messageId !== undefined) returned.add(messageId);
  });
  return {
    name: 'rabbitmq',
    target: routingKey,
    close: () => publisher.close(),
    async publish(message: Message, _: PublishOptions): Promise<void> {
      const body = Buffer.from(JSON.stringify(message.data ?? null));
      if (body.length > maxBytes)
        throw new DeadLetter(`the event has ${body.length} bytes, more than ${maxBytes}`);
      const key = routingKey(message);
      try {
        await publisher.send(envelopeOf(message, exchange, key), body);
      } catch (error) {
        throw judged(error as Error & { code?: string });
      }
      // A return comes before its confirm; the client tells of it a moment later.
      await setImmediate();
      if (returned.delete(message.id))
        throw new DeadLetter(`no queue takes routing key "${key}" of exchange "${exchange}"`);
    },
  };
}

const envelopeOf = (message: Message, exchange: string, routingKey: string) => ({
  exchange,
  routingKey,
  mandatory: true,
  durable: true,
  messageId: message.id,
  type: message.type,
  timestamp: Math.floor(message.occurredAt.getTime() / 1_000),
  contentType: 'application/json',
  headers: headersOf(message),
});

/** A nack is about one queue; an exchange that is not there closes the channel, and is about this sink. */
function judged(error: Error & { code?: string }): Error {
  if (error.code !== 'NACK') return error;
  return new Unavailable('a queue rejected the event', { scope: 'target', cause: error });
}
