/**
 * The customers: an order every few milliseconds, and more of them when asked. A database that is
 * away is waited for. Only what was committed for certain is counted as promised; whether an order
 * went through whose commit was not answered, the rows say.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Holdfast } from 'holdfast';
import { shardedKeys } from 'holdfast';
import { isTransient } from 'holdfast/internal';
import type pg from 'pg';
import type { OrderOptions } from './jobs.js';
import { placeOrders } from './shop.js';

const EVERY_MS = 40;
const AGAIN_MS = 500;
const BURST_BATCH = 100;

export class Producer {
  /** Orders whose commit was confirmed. */
  promised = 0;
  readonly #pool: pg.Pool;
  readonly #hf: Holdfast;
  readonly #stop = new AbortController();
  #running: Promise<void> | null = null;
  readonly #extra = new Set<Promise<unknown>>();

  constructor(pool: pg.Pool, hf: Holdfast) {
    this.#pool = pool;
    this.#hf = hf;
  }

  /** Until `stop`; rejects when an order cannot be placed for good. */
  run(): Promise<void> {
    this.#running = this.#keepPlacing();
    return this.#running;
  }

  async #keepPlacing(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const next = performance.now() + EVERY_MS;
      const away = await this.place(1).then(
        () => false,
        (error) => {
          if (isTransient(error)) return true;
          throw error;
        },
      );
      const pauseMs = away ? AGAIN_MS : Math.max(0, next - performance.now());
      await delay(pauseMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** In transactions of a hundred. */
  burst(orders: number): Promise<void> {
    return this.#tracked(async () => {
      for (let left = orders; left > 0 && !this.#stop.signal.aborted; left -= BURST_BATCH) {
        await this.place(Math.min(left, BURST_BATCH));
      }
    });
  }

  /** One order with many parcels: many jobs of one key. Returns its number. */
  hotKey(parcels: number): Promise<number> {
    return this.#one({ parcels });
  }

  /** As many parcels in the shards of one key, an order for each shard. Returns the key. */
  async shards(parcels: number, shards: number): Promise<string> {
    const whole = 'merchant:hot';
    const options = { parcels: Math.ceil(parcels / shards), key: shardedKeys(whole, shards) };
    await this.#tracked(() => this.place(shards, options));
    return whole;
  }

  /** One order under this key. Returns its number. */
  enqueue(key: string): Promise<number> {
    return this.#one({ key: () => key });
  }

  /** One order with a job that kills its worker. Returns its number. */
  poison(): Promise<number> {
    return this.#one({ poisoned: true });
  }

  #one(options: OrderOptions): Promise<number> {
    return this.#tracked(async () => {
      const [id] = await this.place(1, options);
      return id as number;
    });
  }

  async place(orders: number, options: OrderOptions = {}): Promise<number[]> {
    const placed = await placeOrders(this.#pool, this.#hf, orders, options);
    this.promised += placed.length;
    return placed;
  }

  #tracked<Value>(work: () => Promise<Value>): Promise<Value> {
    const run = work();
    const settled = run.catch(() => undefined).finally(() => this.#extra.delete(settled));
    this.#extra.add(settled);
    return run;
  }

  /** Resolves when the last order is in. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await Promise.all(this.#extra);
  }
}
