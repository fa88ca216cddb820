/**
 * Membership: this worker's picture of the fleet, and what it makes of it.
 *
 * The picture is a hint. It is read anew when the epoch in the answer of a claim has moved, when a
 * notification says so, and now and then in any case; reads are never made twice at once. Every
 * worker that reads the same list computes the same shares; while two pictures differ, two workers may
 * read one bucket, and the rows decide.
 */
import type { FleetView } from '../../fleet/registry.js';
import { Backoff, pause } from '../../postgres/backoff.js';
import type { Time, Timer } from '../time.js';

export interface MembershipDeps {
  readonly read: () => Promise<FleetView>;
  /** Called with every picture that was read, also with one that did not change. */
  readonly use: (view: FleetView) => void;
  /** When to read next if nothing happens; asked after every read. */
  readonly everyMs: () => number;
  readonly time: Time;
  readonly reportError: (what: string, error: unknown) => void;
}

export class Membership {
  readonly #deps: MembershipDeps;
  readonly #halt = new AbortController();
  readonly #backoff = new Backoff();
  #epoch = 0;
  #started = false;
  #reading = false;
  #again = false;
  #timer: Timer | null = null;

  constructor(deps: MembershipDeps) {
    this.#deps = deps;
  }

  /** Resolves when the first picture has been used. Earlier changes are in it. */
  start(): Promise<void> {
    this.#started = true;
    return this.refresh();
  }

  /** A claim, or the keeper, met this epoch. */
  recordEpoch(epoch: number): void {
    if (epoch > this.#epoch) void this.refresh();
  }

  /** Reads now, or once more after the read that is under way. */
  async refresh(): Promise<void> {
    this.#again = true;
    if (this.#reading || !this.#started) return;
    this.#reading = true;
    while (this.#again && !this.#halt.signal.aborted) {
      this.#again = false;
      try {
        const view = await this.#deps.read();
        this.#backoff.reset();
        if (this.#halt.signal.aborted) break;
        this.#epoch = view.epoch;
        this.#deps.use(view);
      } catch (error) {
        // A read that a stop overtook finds its pool closed: nobody needs its answer any more.
        if (this.#halt.signal.aborted) break;
        this.#deps.reportError('reading the membership of the fleet', error);
        this.#again = true;
        await pause(this.#backoff.nextMs(), this.#halt.signal);
      }
    }
    this.#reading = false;
    this.#plan();
  }

  stop(): void {
    this.#halt.abort();
    this.#timer?.cancel();
  }

  #plan(): void {
    this.#timer?.cancel();
    if (this.#halt.signal.aborted) return;
    this.#timer = this.#deps.time.after(this.#deps.everyMs(), () => void this.refresh());
  }
}
