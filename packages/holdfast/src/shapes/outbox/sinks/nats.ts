/**
 * Events to NATS JetStream. The message id is sent as `Nats-Msg-Id`: within the stream's duplicate window, two minutes
 * unless you change it, JetStream keeps one copy. A subject without a stream is a fault of that subject.
 *
 * On a connection the sink sends and reads the acknowledgements itself (nats-acks.ts): the client makes three timers, two
 * errors and their stacks for each message that goes through `jetstream.publish`, and that is dearer than all the rest.
 */
import { DeadLetter } from '../../../job/errors/errors.js';
import { invalid } from '../../../job/errors/holdfast-error.js';
import { checkKnown, type Known } from '../../../job/options/known-options.js';
import { headersOf, type Message } from '../message.js';
import {
  type Accepted,
  checkClient,
  type PublishOptions,
  type Sink,
  Unavailable,
} from '../sink.js';
import { Acks, type NatsConnectionLike } from './nats-acks.js';
import { headerWriter, type NatsHeadersLike } from './nats-headers.js';

export type { NatsAckLike, NatsConnectionLike } from './nats-acks.js';
export type { NatsHeadersLike } from './nats-headers.js';

/** What the sink calls of `jetstream(connection)` of `@nats-io/jetstream`. */
export interface JetStreamLike {
  /** Publishes one message. */
  publish(
    subject: string,
    payload: Uint8Array,
    // biome-ignore lint/suspicious/noExplicitAny: the headers of the client are a class of its own
    options: { msgID: string; timeout: number; headers: any },
  ): Promise<{ duplicate: boolean }>;
}

/**
 * Options of `natsSink()`.
 * @example natsSink(nats.connection, { headers: nats.headers, subject: ({ type }) => `shop.${type}` });
 */
export interface NatsSinkOptions {
  /** `headers` of `@nats-io/nats-core` or `@nats-io/transport-node`, which makes the headers of a message. */
  readonly headers: () => NatsHeadersLike;
  /** The subject of an event. Default `events.<type>`. */
  readonly subject?: (message: Message) => string;
  /** Where acknowledgements go: the `inboxPrefix` of your connection, if you gave it one. Default `_INBOX`. */
  readonly inboxPrefix?: string;
}

const OPTIONS = { headers: true, subject: true, inboxPrefix: true } as const satisfies Known<
  Required<NatsSinkOptions>
>;

/** Codes of JetStream that say: this message, never. */
const REFUSED = new Map([
  [10054, 'it is larger than the stream allows'],
  [10097, 'its headers are larger than the stream allows'],
]);
/** What waits for an answer must not give up sooner than the relay. */
const SLACK_MS = 1_000;

type Send = (
  subject: string,
  payload: Uint8Array,
  message: Message,
  timeoutMs: number,
) => Promise<{ duplicate: boolean }>;

function sender(client: JetStreamLike | NatsConnectionLike, options: NatsSinkOptions): Send {
  const { headers, inboxPrefix = '_INBOX' } = options;
  if ('flush' in client) {
    const acks = new Acks(client, inboxPrefix);
    const write = headerWriter(headers());
    return (subject, payload, message, timeoutMs) =>
      acks.publish(subject, payload, write(message), timeoutMs);
  }
  return (subject, payload, message, timeout) => {
    const facts = headers();
    for (const [name, value] of Object.entries(headersOf(message))) facts.set(name, value);
    return client.publish(subject, payload, { msgID: message.messageId, timeout, headers: facts });
  };
}

/**
 * A sink that publishes to NATS JetStream. Give it the connection; with `jetstream(connection)` it does the same at several
 * times the cost.
 * @example
 * // nats.connection is await connect() of @nats-io/transport-node, nats.headers is headers of the same
 * relay(worker, events, natsSink(nats.connection, { headers: nats.headers }));
 */
export function natsSink(
  client: JetStreamLike | NatsConnectionLike,
  options: NatsSinkOptions,
): Sink {
  checkClient(
    client,
    'publish',
    'natsSink()',
    'a connection, or what jetstream(connection) returns',
  );
  checkKnown(options, OPTIONS, 'natsSink()', 'No sink was made.');
  if (typeof options?.headers !== 'function')
    throw invalid('natsSink() needs { headers }, of @nats-io/nats-core. No sink was made.');
  const { subject = ({ type }) => `events.${type}` } = options;
  const send = sender(client, options);
  return {
    name: 'nats',
    target: subject,
    async publish(message: Message, { timeoutMs }: PublishOptions): Promise<Accepted> {
      try {
        // Cut from a pool: a buffer of its own for each message is dear to make and to collect.
        const payload = Buffer.from(JSON.stringify(message.data ?? null));
        return await send(subject(message), payload, message, timeoutMs + SLACK_MS);
      } catch (error) {
        throw judged(error as NatsError);
      }
    },
  };
}

/** A JetStream error has a code of its own; the other errors have names. */
type NatsError = Error & { readonly code?: unknown };

function judged(error: NatsError): Error {
  const refused = REFUSED.get(Number(error.code));
  const reason = `JetStream refused the event: ${refused ?? error.message}`;
  if (refused || error.name === 'InvalidArgumentError' || error.name === 'InvalidSubjectError')
    return new DeadLetter(reason, { cause: error });
  const ofTarget = error.name === 'JetStreamNotEnabled' || error.name === 'JetStreamApiError';
  if (!ofTarget) return error;
  const what = error.name === 'JetStreamNotEnabled' ? 'no stream takes the subject' : error.message;
  return new Unavailable(what, { scope: 'target', cause: error });
}
