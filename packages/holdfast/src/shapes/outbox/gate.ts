/**
 * Whether a message may be sent now: one breaker for the sink, one for each target that has a fault. Messages wait for the
 * sink inside of their handlers, up to a bound. Messages to a broken target go back to the queue at once and free their
 * place for other keys; they come back spread over time, so that a million keys are not a million rows a second.
 */
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkWorker } from '../../worker/handlers.js';
import { Breaker, type Pauses, type Permit } from './breaker.js';
import type { Sink } from './sink.js';

/** So many messages to broken targets come back in a second, */
const BACK_PER_SECOND = 100;
/** unless the last of them had to wait for longer than this. */
const LONGEST_MS = 300_000;

/** What a message needs to be sent. */
export interface Pass {
  readonly sink: Permit;
  /** Null: its target has no fault. */
  readonly target: Permit | null;
}

interface Target {
  readonly breaker: Breaker;
  /** When the last message that was put off comes back. */
  lastBackAt: number;
}

export class Gate {
  readonly breaker: Breaker;
  readonly #pauses: Pauses;
  readonly #targets = new Map<string, Target>();
  /** When the sink answered last. */
  #answeredAt = 0;

  constructor(pauses: Pauses) {
    this.#pauses = pauses;
    this.breaker = new Breaker(pauses);
  }

  /** Targets that do not answer. */
  get broken(): string[] {
    return [...this.#targets.keys()];
  }

  /** How long a message to this target stays away; the permit to ask whether it is back; null: it has no fault. */
  target(name: string | null): Permit | { readonly putOffMs: number } | null {
    const target = name === null ? undefined : this.#targets.get(name);
    if (!target) return null;
    return target.breaker.acquire() ?? { putOffMs: this.#putOff(target) };
  }

  #putOff(target: Target): number {
    const now = performance.now();
    const soonest = now + Math.max(target.breaker.retryInMs, this.#pauses.baseMs);
    const next = target.lastBackAt + 1_000 / BACK_PER_SECOND;
    target.lastBackAt = Math.min(Math.max(soonest, next), now + LONGEST_MS);
    return target.lastBackAt - now;
  }

  /** A sink that answers others meanwhile is there: silence is about one target. */
  answeredSince(at: number): boolean {
    return this.#answeredAt >= at;
  }

  /** The broker has the message, or has refused it. */
  answered(name: string | null, { sink, target }: Pass): void {
    this.#answeredAt = performance.now();
    sink.succeeded();
    target?.succeeded();
    if (name !== null && target) this.#targets.delete(name);
  }

  /** True: this fault opened the breaker. */
  sinkFailed({ sink, target }: Pass, retryAfterMs: number | null): boolean {
    target?.returned();
    return sink.failed(retryAfterMs);
  }

  /** True: this fault opened the breaker. */
  targetFailed(name: string, pass: Pass, retryAfterMs: number | null): boolean {
    this.#answeredAt = performance.now();
    pass.sink.succeeded();
    pass.target?.failed(retryAfterMs);
    if (this.#targets.has(name)) return false;
    const target = { breaker: new Breaker(this.#pauses), lastBackAt: 0 };
    target.breaker.open(retryAfterMs);
    this.#targets.set(name, target);
    return true;
  }
}

const gates = new WeakMap<Sink, Gate>();

/** One for a sink, however many relays publish to it. */
export function gateOf(sink: Sink, pauses: Pauses): Gate {
  const known = gates.get(sink);
  if (known) return known;
  const gate = new Gate(pauses);
  gates.set(sink, gate);
  return gate;
}

/** Throws unless these are a worker, an outbox and a sink. */
export function checkRelay(worker: unknown, events: unknown, sink: unknown): void {
  const undone = 'No relay was made.';
  checkWorker(worker, 'The first argument of relay()', undone);
  const { holds } = (events ?? {}) as { readonly holds?: unknown };
  if (typeof holds !== 'function')
    throw invalid(`The second argument of relay() must be what outbox() made. ${undone}`);
  const { name, publish } = (sink ?? {}) as Partial<Sink>;
  if (typeof publish === 'function' && typeof name === 'string') return;
  throw invalid(`The sink of relay() has a name and publish(), not ${shown(sink)}. ${undone}`);
}
