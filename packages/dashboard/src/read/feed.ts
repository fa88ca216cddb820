/**
 * One poll of the database for all open pages, and none while there is none. A page that reconnects names the last event
 * that it received (Last-Event-ID) and gets the samples since then, as far as they are kept. Where the database does not
 * answer, pages receive a `down` event and the poll goes on.
 */
import { randomBytes } from 'node:crypto';
import type { Overview, PartialOverview, Stopped, UnhandledJobs } from 'holdfast/internal';
import { type Sample, type Snapshot, sampleOf, snapshotOf } from './snapshot.js';

export const POLL_MS = 2_000;
const KEPT = 300;
/** Nobody looked for so long: the charts begin anew. */
const GAP_MS = 30_000;
/** Who handles what changes with a deploy, and asking is dearer than the rest. */
const UNHANDLED_EVERY = 5;

export type FeedEvent =
  | {
      readonly event: 'snapshot';
      readonly id: string;
      readonly data: {
        readonly snapshot: Snapshot;
        /** The database's clock when this is sent. The picture may be some seconds older. */
        readonly now: number;
        readonly samples: readonly Sample[];
        /** These samples are all that there are. */
        readonly reset: boolean;
      };
    }
  | { readonly event: 'down'; readonly data: { readonly error: string } };

export interface FeedDeps {
  readonly overview: () => Promise<PartialOverview>;
  readonly unhandled: (seen: Overview) => Promise<readonly UnhandledJobs[]>;
  readonly stopped: (seen: Overview) => Promise<readonly Stopped[]>;
  readonly explain: (error: unknown) => string;
  readonly everyMs: number;
}

/** Null: the feed is closed. */
type Listener = (event: FeedEvent | null) => void;

export class Feed {
  readonly #deps: FeedDeps;
  readonly #listeners = new Set<Listener>();
  /** Another process, or a new start, has other numbers. */
  readonly #epoch = randomBytes(4).toString('hex');
  #count = 0;
  #samples: Sample[] = [];
  #snapshot: Snapshot | null = null;
  #seen: Overview | null = null;
  #unhandled: readonly UnhandledJobs[] = [];
  #stopped: readonly Stopped[] = [];
  #polledAt = Number.NEGATIVE_INFINITY;
  #readAt = 0;
  /** Listeners that wait for their first event, with the id that each received last. */
  readonly #joining = new Map<Listener, string | null>();
  #timer: NodeJS.Timeout | null = null;
  #running = false;
  #closed = false;

  constructor(deps: FeedDeps) {
    this.#deps = deps;
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  /** `lastId`: the last event that was received. Returns how to unsubscribe. */
  subscribe(listener: Listener, lastId: string | null): () => void {
    if (this.#closed) {
      listener(null);
      return () => {};
    }
    this.#listeners.add(listener);
    if (this.#snapshot && performance.now() - this.#polledAt < 2 * this.#deps.everyMs)
      listener(this.#eventOf(this.#snapshot, this.#since(lastId)));
    else this.#joining.set(listener, lastId);
    if (!this.#running && this.#timer === null) void this.#poll();
    return () => {
      this.#listeners.delete(listener);
      this.#joining.delete(listener);
      if (this.#listeners.size === 0) this.#stop();
    };
  }

  close(): void {
    this.#closed = true;
    for (const listener of this.#listeners) listener(null);
    this.#listeners.clear();
    this.#joining.clear();
    this.#stop();
  }

  #stop(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** Null: not known any more. */
  #since(lastId: string | null): number | null {
    const [epoch, number] = (lastId ?? '').split('-');
    const missed = this.#count - Number(number);
    if (epoch !== this.#epoch || !(missed >= 0) || missed > this.#samples.length) return null;
    return missed;
  }

  #eventOf(snapshot: Snapshot, missed: number | null): FeedEvent {
    const first = this.#samples.length - (missed ?? KEPT);
    const data = {
      snapshot,
      now: Math.round(snapshot.at + performance.now() - this.#readAt),
      samples: this.#samples.slice(Math.max(0, first)),
      reset: missed === null,
    };
    return { event: 'snapshot', id: `${this.#epoch}-${this.#count}`, data };
  }

  async #poll(): Promise<void> {
    this.#running = true;
    this.#timer = null;
    try {
      this.#publish(await this.#read());
    } catch (error) {
      const down: FeedEvent = { event: 'down', data: { error: this.#deps.explain(error) } };
      for (const listener of this.#listeners) listener(down);
    } finally {
      this.#running = false;
    }
    if (this.#listeners.size === 0 || this.#closed) return;
    this.#timer = setTimeout(() => void this.#poll(), this.#deps.everyMs);
    this.#timer.unref();
  }

  async #read(): Promise<Snapshot> {
    const readAt = performance.now();
    const seen = await this.#deps.overview();
    if (this.#count % UNHANDLED_EVERY === 0) {
      this.#unhandled = await this.#deps.unhandled(seen);
      this.#stopped = await this.#deps.stopped(seen);
    }
    const snapshot = snapshotOf(seen, this.#unhandled, this.#stopped);
    this.#sample(seen, snapshot.at);
    this.#count += 1;
    this.#seen = seen;
    this.#snapshot = snapshot;
    this.#readAt = readAt;
    this.#polledAt = performance.now();
    return snapshot;
  }

  /** Rates need a reading before this one, and not one of an hour ago. */
  #sample(seen: Overview, at: number): void {
    if (performance.now() - this.#polledAt > GAP_MS) this.#samples = [];
    else if (this.#seen) this.#samples.push(sampleOf(seen, this.#seen, at));
    if (this.#samples.length > KEPT) this.#samples.shift();
  }

  #publish(snapshot: Snapshot): void {
    const usual = this.#eventOf(snapshot, 1);
    for (const listener of this.#listeners) {
      const lastId = this.#joining.get(listener);
      if (lastId === undefined) listener(usual);
      else listener(this.#eventOf(snapshot, this.#since(lastId)));
    }
    this.#joining.clear();
  }
}
