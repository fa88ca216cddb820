/**
 * Events to NATS JetStream. The message id is sent as `Nats-Msg-Id`: within the stream's duplicate window, two minutes
 * unless you change it, JetStream keeps one copy. A subject without a stream is a fault of that subject.
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

/** What the sink calls of the headers of a NATS message. */
export interface NatsHeadersLike {
  /** Sets one header. */
  set(name: string, value: string): void;
}

/**
 * Options of `natsSink()`.
 * @example natsSink(nats.jetstream, { headers: nats.headers, subject: ({ type }) => `shop.${type}` });
 */
export interface NatsSinkOptions {
  /** `headers` of `@nats-io/nats-core` or `@nats-io/transport-node`, which makes the headers of a message. */
  readonly headers: () => NatsHeadersLike;
  /** The subject of an event. Default `events.<type>`. */
  readonly subject?: (message: Message) => string;
}

const OPTIONS = { headers: true, subject: true } as const satisfies Known<
  Required<NatsSinkOptions>
>;

/** Codes of JetStream that say: this message, never. */
const REFUSED = new Map([
  [10054, 'it is larger than the stream allows'],
  [10097, 'its headers are larger than the stream allows'],
]);
/** The client's timer must not be faster than that of the relay. */
const SLACK_MS = 1_000;
const encoder = new TextEncoder();

/**
 * A sink that publishes to NATS JetStream.
 * @example
 * // nats.jetstream is jetstream(connection) of @nats-io/jetstream, nats.headers is headers of @nats-io/transport-node
 * relay(worker, events, natsSink(nats.jetstream, { headers: nats.headers }));
 */
export function natsSink(jetstream: JetStreamLike, options: NatsSinkOptions): Sink {
  checkClient(jetstream, 'publish', 'natsSink()', 'what jetstream(connection) returns');
  checkKnown(options, OPTIONS, 'natsSink()', 'No sink was made.');
  if (typeof options?.headers !== 'function')
    throw invalid('natsSink() needs { headers }, of @nats-io/nats-core. No sink was made.');
  const { headers, subject = ({ type }) => `events.${type}` } = options;
  return {
    name: 'nats',
    target: subject,
    async publish(message: Message, { timeoutMs }: PublishOptions): Promise<Accepted> {
      const facts = headers();
      for (const [name, value] of Object.entries(headersOf(message))) facts.set(name, value);
      const payload = encoder.encode(JSON.stringify(message.data ?? null));
      const rest = { msgID: message.messageId, timeout: timeoutMs + SLACK_MS, headers: facts };
      try {
        const { duplicate } = await jetstream.publish(subject(message), payload, rest);
        return { duplicate };
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
