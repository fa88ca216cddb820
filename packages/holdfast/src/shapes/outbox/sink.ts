/**
 * What a relay publishes to. A sink sends one message and resolves once the broker has it for good. It says how a message
 * failed by what it throws: `DeadLetter` refuses the message, `Unavailable` says who does not answer, and every other
 * error counts as a fault of the whole sink. Only a refusal ends an event.
 */
import { brand, invalid, shown } from '../../job/errors/holdfast-error.js';
import { type Duration, durationMs } from '../../job/options/duration.js';
import { checkChoice, checkKnown, type Known } from '../../job/options/known-options.js';
import type { Message } from './message.js';

/** What a sink gets beside the message. */
export interface PublishOptions {
  /** Aborted when the relay no longer waits: the lease is lost, the worker has stopped, or the time is over. */
  readonly signal: AbortSignal;
  /** For how long the relay waits for the broker. */
  readonly timeoutMs: number;
}

/** What the broker said to a message that it has. */
export interface Accepted {
  /** The broker knew its id already and kept one copy. */
  readonly duplicate?: boolean;
}

/**
 * Where events go. Entries such as `holdfast/outbox/nats` make one from your client; you can write your own.
 * @example
 * const published: Message[] = [];
 * const memory: Sink = { name: 'memory', publish: async (message) => void published.push(message) };
 */
export interface Sink {
  /** How logs and errors call it. */
  readonly name: string;
  /** The topic, subject or address of a message. Faults of one target hold no other target's keys. Default: there is one. */
  target?(message: Message): string;
  /**
   * Sends one message; resolves once the broker has it for good. Throw `DeadLetter` to refuse it and `Unavailable` to say
   * who does not answer.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: a sink may return nothing
  publish(message: Message, options: PublishOptions): Promise<Accepted | void>;
}

/** Throws unless the client of a sink has the method that the sink calls. */
export function checkClient(client: unknown, method: string, sink: string, kind: string): void {
  const found = (client as Readonly<Record<string, unknown>> | null | undefined)?.[method];
  if (typeof found === 'function') return;
  throw invalid(
    `The first argument of ${sink} must be ${kind}, not ${shown(client)}. No sink was made.`,
  );
}

/** Who does not answer, and for how long. */
export interface UnavailableOptions {
  /** `target`: only the topic, subject or address of the message. Default `sink`. */
  readonly scope?: 'sink' | 'target';
  /** How long the broker asks to be left alone. Default: the relay chooses. */
  readonly retryAfter?: Duration;
  /** The error of your client. Default: none. */
  readonly cause?: unknown;
}

const OPTIONS = {
  ...{ scope: true, retryAfter: true, cause: true },
} as const satisfies Known<UnavailableOptions>;

/**
 * Throw it in a sink when the broker does not answer. The event waits; no attempt counts.
 * @example throw new Unavailable('the topic has no leader', { scope: 'target' });
 */
export class Unavailable extends Error {
  static {
    brand(Unavailable, 'Unavailable');
  }
  /** Who does not answer. */
  readonly scope: 'sink' | 'target';
  /** How long the broker asks to be left alone; null: it did not say. */
  readonly retryAfterMs: number | null;
  constructor(reason: string, options: UnavailableOptions = {}) {
    checkKnown(options, OPTIONS, 'Unavailable', 'The event waits.');
    super(reason, options.cause === undefined ? undefined : { cause: options.cause });
    this.scope =
      checkChoice(options.scope, ['sink', 'target'], 'scope', 'The event waits.') ?? 'sink';
    const { retryAfter } = options;
    this.retryAfterMs =
      retryAfter === undefined ? null : durationMs(retryAfter, 'retryAfter of Unavailable');
  }
}
