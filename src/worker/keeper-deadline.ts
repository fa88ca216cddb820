/**
 * The deadline of a drain that a signal asked for: the process ends, whatever its handlers do.
 *
 * A main thread that turns does everything by itself, and the deadline is only its last resort. One that
 * spins hears no signal and runs no timer. Then the keeper's thread announces the drain, keeps the
 * leases while the grace period lasts, hands the jobs back when it is over, and ends the process. After
 * a second signal that the main thread does not follow it does so at once. Without a signal it does
 * nothing: a program that stops its worker by itself decides when it ends.
 */
import { endProcess, TWICE_MS } from './signals.js';

const TICK_MS = 50;
/** A main thread that made no turn for so long, when the grace period is over, is not waited for. */
const STUCK_MS = 500;
/** What a main thread that turns may take beyond the grace period to end the process. */
const LAST_RESORT_MS = 1_500;
/** The same when its worker has stopped already, and only handlers of it may be left. */
const GUARD_MS = 1_900;
/** A main thread that turns follows a second signal within this time. */
const SECOND_MS = 250;
const HAND_BACK_MS = 1_000;
const LAST_HAND_BACK_MS = 350;

export interface DeadlineGround {
  readonly graceMs: number;
  /** For how long the main thread's event loop has not turned. */
  readonly stuckMs: () => number;
  /** How many jobs are held. */
  readonly held: () => number;
  /** Says in the registry that this worker drains. */
  readonly announce: () => void;
  /** Hands back what is held, leaves the registry, and returns how many jobs went back. */
  readonly handBack: () => Promise<number>;
  /** The main thread ignores the signal, and so it is as if it had not come. */
  readonly forgotten: () => void;
}

export class Deadline {
  readonly #ground: DeadlineGround;
  #timer: NodeJS.Timeout | null = null;
  #firstAt: number | null = null;
  #secondAt = Number.POSITIVE_INFINITY;
  #graceEndsAt = Number.POSITIVE_INFINITY;
  /** The main thread has said that it drains. */
  #followed = false;
  #announced = false;
  #guards = false;

  constructor(ground: DeadlineGround) {
    this.#ground = ground;
  }

  /** SIGTERM or SIGINT was heard on this thread. */
  signalled(): void {
    const now = performance.now();
    if (this.#firstAt !== null) {
      if (now - this.#firstAt >= TWICE_MS) this.#secondAt = Math.min(this.#secondAt, now);
      return;
    }
    this.#firstAt = now;
    if (!this.#followed) this.#graceEndsAt = now + this.#ground.graceMs;
    this.#start();
  }

  /** The main thread drains; it knows best how much of the grace period is left. */
  drain(graceMs: number, signalled: boolean): void {
    this.#followed = true;
    this.#graceEndsAt = performance.now() + graceMs;
    if (signalled || this.#firstAt !== null) this.#start();
  }

  /** The worker has stopped, but handlers may still keep the process. False: nothing to wait for. */
  guard(): boolean {
    this.#guards = this.#timer !== null;
    return this.#guards;
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
  }

  #start(): void {
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS);
  }

  #tick(): void {
    const now = performance.now();
    const stuckMs = this.#ground.stuckMs();
    const overMs = now - this.#graceEndsAt;
    if (this.#guards) {
      if (overMs < GUARD_MS) return;
      this.stop();
      endProcess('handlers kept the process after its worker had stopped');
    } else if (now - this.#secondAt >= SECOND_MS && stuckMs >= SECOND_MS) {
      this.#end('a second signal came while the main thread made no progress', LAST_HAND_BACK_MS);
    } else if (overMs >= 0 && stuckMs >= STUCK_MS) {
      this.#end('the grace period is over and the main thread makes no progress', HAND_BACK_MS);
    } else if (overMs >= LAST_RESORT_MS && this.#followed) {
      this.#end('the grace period is over and the worker did not stop', LAST_HAND_BACK_MS);
    } else if (overMs >= LAST_RESORT_MS) {
      // The main thread turns and does not drain: somebody took its listeners off, and knows why.
      this.#forget();
    } else if (!this.#followed && !this.#announced && stuckMs >= STUCK_MS) {
      this.#announced = true;
      this.#ground.announce();
    }
  }

  #forget(): void {
    this.stop();
    this.#firstAt = null;
    this.#secondAt = Number.POSITIVE_INFINITY;
    this.#announced = false;
    this.#ground.forgotten();
  }

  #end(why: string, withinMs: number): void {
    this.stop();
    const held = this.#ground.held();
    const end = (how: string) => {
      clearTimeout(late);
      endProcess(`${why}; ${how}`);
    };
    const late = setTimeout(() => end(`${held} jobs could not be handed back in time`), withinMs);
    this.#ground.handBack().then(
      (count) => end(`${count} of ${held} jobs were handed back`),
      (error: unknown) => end(`${held} jobs could not be handed back (${String(error)})`),
    );
  }
}
