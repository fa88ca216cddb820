/**
 * The relay: publishes the events of an outbox, in order per key. The queue gives out one event of a key at a time, so what
 * is here is about faults. An event whose broker does not answer waits, and spends no attempt. After this process stood
 * still it asks the database whether it still holds an event, before it sends it.
 */
import { DeadLetter, Snooze } from '../../job/errors/errors.js';
import { type Duration, durationMs } from '../../job/options/duration.js';
import { checkKnown, type Known } from '../../job/options/known-options.js';
import { Handling } from '../../worker/handlers.js';
import type { HandlerContext } from '../../worker/run/handler-context.js';
import type { Worker } from '../../worker/worker.js';
import { checkRelay, type Gate, gateOf, type Pass } from './gate.js';
import { type Message, messageOf, type StoredEvent } from './message.js';
import type { Outbox } from './outbox.js';
import { Pulse } from './pulse.js';
import { type Sink, Unavailable } from './sink.js';
import { Deadline, Deadlines, isAborted, waitForPermit } from './waiting.js';

/**
 * Options of `relay()`.
 * @example relay(worker, events, sink, { ackTimeout: '5s', maxWait: '2m' });
 */
export interface RelayOptions {
  /** How long a message may wait for the broker's answer. Default 10 s, up to 10 minutes. */
  readonly ackTimeout?: Duration;
  /**
   * How long an event waits in its handler for a sink that does not answer. Then another worker may try. Default 1 minute,
   * up to an hour.
   */
  readonly maxWait?: Duration;
  /** The longest pause between two questions whether the sink is back. Default 10 s, up to 5 minutes. */
  readonly maxPause?: Duration;
}

/** What a relay has done since its start. */
export interface RelayStats {
  /** Messages that the broker has. */
  readonly published: number;
  /** Of these, those that it had already. */
  readonly duplicates: number;
  /** Messages that the broker refused. */
  readonly refused: number;
  /** Messages without an answer, or with one that says "not now". */
  readonly faults: number;
  /** Events that wait in their handlers for the sink. */
  readonly waiting: number;
  /** For how long the sink has not answered; null: it does. */
  readonly downMs: number | null;
  /** Topics, subjects or addresses that do not answer. */
  readonly brokenTargets: readonly string[];
}

/** What `relay()` returns. */
export interface Relay {
  /** The sink it publishes to. */
  readonly sink: Sink;
  /**
   * What it has done since its start, and for whom it waits.
   * @example const { published, downMs } = relay(worker, events, sink).stats();
   */
  stats(): RelayStats;
}

const OPTIONS = {
  ...{ ackTimeout: true, maxWait: true, maxPause: true },
} as const satisfies Known<RelayOptions>;

const BASE_PAUSE_MS = 100;
/** How long an event stays away whose handler has waited for `maxWait`. */
const AWAY_MS = 5_000;
/** A message that opened a breaker so often, while others got through, is itself at fault: it spends attempts. */
const OWN_FAULTS = 5;
const MAX_SUSPECTS = 10_000;
/** A broker's word for how long to leave it alone counts up to here. */
const MAX_RETRY_AFTER_MS = 300_000;

/**
 * Publishes the events of an outbox with this worker, in order per key. Call it before `worker.run()`.
 * @example
 * const worker = hf.worker({ concurrency: 100 });
 * relay(worker, events, httpSink({ url: 'https://events.example/in' }));
 * await worker.run();
 */
export function relay<Events>(
  worker: Worker,
  events: Outbox<Events>,
  sink: Sink,
  options: RelayOptions = {},
): Relay {
  checkKnown(options, OPTIONS, 'relay()', 'No relay was made.');
  checkRelay(worker, events, sink);
  const { ackTimeout = '10s', maxWait = '1m', maxPause = '10s' } = options;
  const capMs = durationMs(maxPause, 'maxPause', { min: BASE_PAUSE_MS, max: 300_000 });
  const publisher = new Publisher(worker.stopping, events, sink, {
    ackTimeoutMs: durationMs(ackTimeout, 'ackTimeout', { min: 1, max: 600_000 }),
    maxWaitMs: durationMs(maxWait, 'maxWait', { min: 0, max: 3_600_000 }),
    gate: gateOf(sink, { baseMs: BASE_PAUSE_MS, capMs, random: Math.random }),
  });
  Handling.addWaiting(worker, 'relay()', events.job, (context) => publisher.publish(context));
  return { sink, stats: () => publisher.stats() };
}

interface Settings {
  readonly ackTimeoutMs: number;
  readonly maxWaitMs: number;
  readonly gate: Gate;
}

interface Fault {
  readonly pass: Pass;
  readonly error: unknown;
  readonly target: string | null;
}

const isOfTarget = (error: unknown) => error instanceof Unavailable && error.scope === 'target';

type Context = HandlerContext<StoredEvent>;

class Publisher {
  readonly #stopping: AbortSignal;
  readonly #events: Pick<Outbox<unknown>, 'holds'>;
  readonly #sink: Sink;
  readonly #settings: Settings;
  readonly #gate: Gate;
  readonly #pulse = new Pulse();
  readonly #deadlines: Deadlines;
  /** By message id, how often it opened a breaker. */
  readonly #suspects = new Map<string, number>();
  readonly #counts = { published: 0, duplicates: 0, refused: 0, faults: 0 };
  /** When it last told the log that the sink is down; null: it is not. */
  #toldDownAt: number | null = null;

  constructor(
    stopping: AbortSignal,
    events: Pick<Outbox<unknown>, 'holds'>,
    sink: Sink,
    settings: Settings,
  ) {
    this.#stopping = stopping;
    this.#events = events;
    this.#sink = sink;
    this.#settings = settings;
    this.#gate = settings.gate;
    this.#deadlines = new Deadlines(settings.ackTimeoutMs);
  }

  stats(): RelayStats {
    const { openSince, waiting } = this.#gate.breaker;
    const downMs = openSince === null ? null : Math.round(performance.now() - openSince);
    return { ...this.#counts, waiting, downMs, brokenTargets: this.#gate.broken };
  }

  async publish(context: Context): Promise<void> {
    const startedAt = performance.now();
    const message = messageOf(context);
    const target = this.#targetOf(message);
    this.#pulse.start();
    try {
      const giveUpAt = startedAt + this.#settings.maxWaitMs;
      while (!(await this.#attempt(context, message, target, { startedAt, giveUpAt })));
    } finally {
      this.#pulse.end();
    }
  }

  /** False: the sink did not answer; try again. */
  async #attempt(
    context: Context,
    message: Message,
    target: string | null,
    { startedAt, giveUpAt }: { readonly startedAt: number; readonly giveUpAt: number },
  ): Promise<boolean> {
    const pass = await this.#pass(context, target, giveUpAt);
    try {
      if (this.#pulse.stalledSince(startedAt)) await this.#checkHeld(context);
    } catch (error) {
      pass.sink.returned();
      pass.target?.returned();
      throw error;
    }
    const deadline = new Deadline(this.#deadlines, context);
    try {
      const accepted = await deadline.answer(this.#sink.publish(message, deadline));
      this.#published(context, message, target, pass, accepted?.duplicate ?? false);
      return true;
    } catch (error) {
      // Silence says nothing about who is at fault. A sink that answered others meanwhile is not.
      const silent = deadline.timedOut && !this.#gate.answeredSince(deadline.sentAt);
      const ofTarget = isOfTarget(error) || (deadline.timedOut && !silent);
      this.#failed(context, message, ofTarget ? target : null, { pass, error, target });
      return false;
    }
  }

  #targetOf(message: Message): string | null {
    try {
      return this.#sink.target?.(message) ?? null;
    } catch (cause) {
      throw new DeadLetter(`${this.#sink.name} has no target for ${message.type}`, { cause });
    }
  }

  /** Throws Snooze if the message must not be sent now. */
  async #pass(context: Context, name: string | null, giveUpAt: number): Promise<Pass> {
    const sink =
      this.#gate.breaker.acquire() ??
      (await waitForPermit(this.#gate.breaker, {
        signal: context.signal,
        stopping: this.#stopping,
        ms: giveUpAt - performance.now(),
        awayMs: AWAY_MS,
      }));
    const target = this.#gate.target(name);
    if (target && 'putOffMs' in target) {
      sink.returned();
      throw new Snooze(target.putOffMs, `${this.#sink.name}: ${name} does not answer`);
    }
    return { sink, target };
  }

  /** Throws if somebody else may have the event by now. */
  async #checkHeld(context: Context): Promise<void> {
    context.signal.throwIfAborted();
    const held = await this.#events.holds(context.id, context.fenceToken).catch(() => null);
    context.signal.throwIfAborted();
    if (held) return;
    throw new Snooze(0, 'this process stood still, and may have lost the event');
  }

  #published(
    context: Context,
    message: Message,
    target: string | null,
    pass: Pass,
    duplicate: boolean,
  ): void {
    this.#gate.answered(target, pass);
    this.#suspects.delete(message.messageId);
    this.#counts.published++;
    if (duplicate) this.#counts.duplicates++;
    if (this.#toldDownAt === null || this.#gate.breaker.openSince !== null) return;
    const downMs = Math.round(performance.now() - this.#toldDownAt);
    this.#toldDownAt = null;
    context.log.info({ sink: this.#sink.name, downMs }, 'the sink takes events again');
  }

  /** Returns if the message may be tried again at once; throws how its job ends otherwise. `broken`: the target at fault. */
  #failed(
    context: Context,
    message: Message,
    broken: string | null,
    { pass, error, target }: Fault,
  ) {
    if (error instanceof DeadLetter) {
      this.#gate.answered(target, pass);
      this.#suspects.delete(message.messageId);
      this.#counts.refused++;
      const { name } = this.#sink;
      throw new DeadLetter(`${name}: ${message.type}: ${error.message}`, { cause: error });
    }
    if (isAborted(context)) {
      pass.sink.returned();
      pass.target?.returned();
      throw error;
    }
    this.#counts.faults++;
    const asked = error instanceof Unavailable ? error.retryAfterMs : null;
    const retryAfterMs = asked === null ? null : Math.min(asked, MAX_RETRY_AFTER_MS);
    const opened =
      broken === null
        ? this.#gate.sinkFailed(pass, retryAfterMs)
        : this.#gate.targetFailed(broken, pass, retryAfterMs);
    if (opened) {
      this.#tellDown(context, broken, error);
      if (this.#isOwnFault(message)) throw error;
    }
    if (this.#stopping.aborted) throw new Snooze(0, 'the worker stops');
  }

  #tellDown(context: Context, target: string | null, error: unknown): void {
    if (target === null) this.#toldDownAt ??= performance.now();
    const { message, name } = error as Error;
    const of = target === null ? {} : { target };
    const err = `${name}: ${message}`;
    const sink = this.#sink.name;
    context.log.warn({ sink, ...of, err }, 'the sink does not take events; they wait');
  }

  /** A message that breaks what others get through is no fault of the broker. */
  #isOwnFault({ messageId }: Message): boolean {
    const faults = (this.#suspects.get(messageId) ?? 0) + 1;
    this.#suspects.delete(messageId);
    this.#suspects.set(messageId, faults);
    if (this.#suspects.size > MAX_SUSPECTS) {
      const [oldest] = this.#suspects.keys();
      this.#suspects.delete(oldest as string);
    }
    return faults >= OWN_FAULTS;
  }
}
