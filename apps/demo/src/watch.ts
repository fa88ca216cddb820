/**
 * Looks at the shop and the fleet again and again: what is proven, what waits, who holds what,
 * which recoveries are over. Everything comes from the proof and from what `inspect` answers. The
 * proof reads all orders, so it is made the less often the longer it takes.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type Overview, overview, reading } from 'holdfast/internal';
import type pg from 'pg';
import type { Recoveries, Recovery } from './fleet/recoveries.js';
import { isBusy, type Picture, unfinished } from './picture.js';
import { CHECKOUTS } from './shop/checkout.js';
import { QUEUE } from './shop/jobs.js';
import { type Proof, prove } from './shop/proof.js';

export interface WatchDeps {
  readonly pool: pg.Pool;
  readonly recoveries: Recoveries;
  /** How much the shop has still to tell. */
  readonly untold: () => Promise<number>;
  /** Orders that must be there. */
  readonly promised: () => number;
  readonly onPicture: (picture: Picture) => void;
  readonly onRecovery: (recovery: Recovery) => void;
  /** The database did not answer. What it throws ends the demo. */
  readonly onError: (error: unknown) => Promise<void>;
}

const EVERY_MS = 1_000;
const RECOVERING_MS = 200;
/** So many times what a picture took passes before the next one. */
const REST = 4;
/** Longer than any retry of the shop waits: whoever waits then, waits for something else. */
const STILL_MS = 3_000;
/** At the end, a database that is away is waited for so long. */
const PATIENCE_MS = 30_000;

export class Watch {
  readonly #deps: WatchDeps;
  readonly #stop = new AbortController();
  #due = 0;
  picture: Picture | null = null;

  constructor(deps: WatchDeps) {
    this.#deps = deps;
  }

  /** Until it is stopped; rejects when the errors do not end. */
  async run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await this.#look().catch((error) => this.#deps.onError(error));
      const pauseMs = this.#deps.recoveries.open.length > 0 ? RECOVERING_MS : EVERY_MS;
      await delay(pauseMs, undefined, { signal }).catch(() => undefined);
    }
  }

  stop(): void {
    this.#stop.abort();
  }

  /**
   * Looks until the fleet has done what it can do now, or the time is over. After `run` has ended.
   */
  async untilIdle(limitMs: number, hurry: AbortSignal): Promise<void> {
    const deadline = performance.now() + limitMs;
    let [before, changedAt] = [-1, 0];
    while (performance.now() < deadline && !hurry.aborted) {
      const seen = await this.#lookPatiently();
      const left = unfinished(seen) + (await this.#deps.untold().catch(() => 1));
      const recovering = this.#deps.recoveries.open.length > 0;
      if (left === 0 && !recovering) return;
      const busy = recovering || isBusy(seen);
      if (left !== before || busy) changedAt = performance.now();
      if (performance.now() - changedAt > STILL_MS) return;
      before = left;
      await delay(RECOVERING_MS, undefined, { signal: hurry }).catch(() => undefined);
    }
  }

  /** The picture at the end. */
  async last(): Promise<Picture> {
    this.#due = 0;
    await this.#lookPatiently();
    return this.picture as Picture;
  }

  /** Another demo may have had the database, and be over now: it is waited for. */
  async #lookPatiently(): Promise<Overview> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      try {
        return await this.#look();
      } catch (error) {
        if (performance.now() > deadline) throw error;
        await this.#deps.onError(error);
        await delay(EVERY_MS);
      }
    }
  }

  /** A look at the fleet and, when one is due, a picture. */
  async #look(): Promise<Overview> {
    const { pool, recoveries, promised, onPicture, onRecovery } = this.#deps;
    const at = performance.now();
    const seen = await reading(
      pool,
      (db) => overview(db, 'holdfast', { queues: [QUEUE, CHECKOUTS], withDead: true }),
      { schema: 'holdfast' },
    );
    for (const recovery of recoveries.saw(seen, at, performance.now())) onRecovery(recovery);
    if (at < this.#due) return seen;
    const proof = await prove(pool, promised());
    const tookMs = performance.now() - at;
    // Not later than the next round of `run`, whose timer may be early by a little.
    this.#due = at + Math.max(EVERY_MS * 0.9, tookMs * REST);
    this.picture = { proof, seen, at, perSecond: this.#perSecond(proof, at) };
    onPicture(this.picture);
    return seen;
  }

  #perSecond({ completed }: Proof, at: number): number {
    const before = this.picture;
    return before ? ((completed - before.proof.completed) * 1000) / (at - before.at) : 0;
  }
}
