/**
 * Journey 3, the hash ring: workers join and leave the registry by the product's statements, the ring is made of what
 * the registry says by the product's function, and beside it stands what `hash % N` would have done.
 */

import { bucketOf, hash32 } from 'holdfast';
import type { Executor } from 'holdfast/internal';
import {
  checkKey,
  fleetView,
  int4,
  leave,
  lockKeyOf,
  movedBuckets,
  register,
  ringOwners,
  statement,
} from 'holdfast/internal';
import type { Act, Journey, Settings, Tone } from './frame.js';
import { NAMES, problemOf, type Stage } from './stage.js';

const SAMPLES = ['order:9182', 'order:9183', 'tenant:123', 'user:ada', 'invoice:2026-07'];
/** So many keys stand for all that there are. */
const MANY_KEYS = 2_000;
const MOST_WORKERS = 12;
const MOST_POINTS = 200;
const KEYS = Array.from({ length: MANY_KEYS }, (_, n) => `order:${n}`);

/** The database computes a bucket by itself when a row is inserted by hand. */
const bucketInSql = statement({
  name: 'lab_bucket_of',
  text: 'SELECT holdfast.bucket_of($1::text) AS bucket',
  columns: { bucket: int4 },
});

interface KeyPlace {
  readonly key: string;
  readonly hash: number;
  readonly bucket: number;
  readonly owner: string | null;
}

/** What the last change of the fleet moved, of all keys, from 0 to 1. */
export interface Moved {
  readonly why: string;
  readonly ring: number;
  readonly modulo: number;
  /** What cannot be less: the share of the one who came or went. */
  readonly least: number;
  readonly buckets: number;
}

export interface RingState {
  readonly workers: readonly { readonly id: string; readonly buckets: number }[];
  /** By bucket, the place of its owner in `workers`. */
  readonly owners: readonly number[];
  readonly points: number;
  readonly bounded: boolean;
  readonly key: KeyPlace | null;
  readonly samples: readonly KeyPlace[];
  readonly moved: Moved | null;
}

export class Ring implements Journey {
  readonly #stage: Stage;
  readonly #db: Executor;
  #points: number;
  #bounded: boolean;
  #workers: readonly string[] = [];
  #key: string | null = null;
  #moved: Moved | null = null;
  #count = 0;

  constructor(stage: Stage, settings: Settings) {
    this.#stage = stage;
    this.#db = stage.executor('lab');
    this.#points = pointsOf(settings.points);
    this.#bounded = settings.bounded !== false;
  }

  async begin(): Promise<void> {
    for (let n = 0; n < 3; n++) await this.#join();
    await this.#read();
    this.#say('Three workers share 1024 buckets.');
  }

  async act(act: Act): Promise<void> {
    if (act.do === 'add') return this.#add();
    if (act.do === 'remove') return this.#remove(String(act.id));
    if (act.do === 'key') return this.#lookUp(String(act.key));
    if (act.do === 'points') this.#points = pointsOf(act.points);
    if (act.do === 'bounded') this.#bounded = act.on === true;
    this.#moved = null;
    this.#say(
      `${this.#points} ${this.#points === 1 ? 'point' : 'points'} for each worker; ${this.#bounded ? 'nobody gets more than 1.2 × the mean' : 'the first point clockwise owns, however much it has'}.`,
    );
  }

  async advance(): Promise<void> {}

  async #join(): Promise<string> {
    const id = `worker-${++this.#count}`;
    const worker = { id, lockKey: lockKeyOf(id), handles: {}, metadata: {} };
    await register(this.#db, NAMES, worker);
    return id;
  }

  /** The members as the registry has them, in one order for all. */
  async #read(): Promise<void> {
    const { members } = await fleetView(this.#db, NAMES);
    this.#workers = members.map(({ id }) => id);
  }

  async #add(): Promise<void> {
    if (this.#workers.length >= MOST_WORKERS)
      return this.#say(`${MOST_WORKERS} workers are enough to see it.`, 'refused');
    const before = this.#workers;
    const id = await this.#join();
    await this.#changed(before, `${id} joined`);
  }

  async #remove(id: string): Promise<void> {
    const before = this.#workers;
    if (!before.includes(id)) return this.#say(`There is no ${id}.`, 'refused');
    if (before.length === 1)
      return this.#say('The last worker stays: somebody must work.', 'refused');
    await leave(this.#db, NAMES, id, true);
    await this.#changed(before, `${id} left`);
  }

  async #changed(before: readonly string[], why: string): Promise<void> {
    await this.#read();
    const [old, now] = [this.#owners(before), this.#owners(this.#workers)];
    const part = (moves: (key: string) => boolean) => KEYS.filter(moves).length / MANY_KEYS;
    this.#moved = {
      ...{ why, buckets: movedBuckets(old, now) },
      ring: part((key) => old[bucketOf(key)] !== now[bucketOf(key)]),
      modulo: part((key) => byModulo(key, before) !== byModulo(key, this.#workers)),
      least: 1 / Math.max(before.length, this.#workers.length),
    };
    const percent = (share: number) => `${Math.round(100 * share)} %`;
    const { ring, modulo, least } = this.#moved;
    this.#say(
      `${why}: ${percent(ring)} of the keys have another owner (1/N is ${percent(least)}). With hash % N it would be ${percent(modulo)}.`,
      'good',
    );
  }

  async #lookUp(key: string): Promise<void> {
    const problem = problemOf(() => checkKey(key));
    if (problem) return this.#say(problem, 'refused');
    this.#key = key;
    const { bucket, owner } = this.#place(key);
    const [row] = await this.#db.run(bucketInSql, NAMES, [key]);
    const same = row?.bucket === bucket;
    this.#say(
      `${key} is in bucket ${bucket}, and the database says ${row?.bucket}; ${owner} comes first for it.`,
      same ? 'good' : 'bad',
    );
  }

  #owners(workers: readonly string[]): readonly string[] {
    const load = this.#bounded ? {} : { load: Number.POSITIVE_INFINITY };
    return ringOwners(workers, { points: this.#points, ...load });
  }

  #place(key: string): KeyPlace {
    const bucket = bucketOf(key);
    return { key, hash: hash32(key), bucket, owner: this.#owners(this.#workers)[bucket] ?? null };
  }

  #say(text: string, tone: Tone = 'plain'): void {
    const owners = this.#owners(this.#workers).map((id) => this.#workers.indexOf(id));
    const state: RingState = {
      workers: this.#workers.map((id, place) => ({
        id,
        buckets: owners.filter((owner) => owner === place).length,
      })),
      ...{ owners, points: this.#points, bounded: this.#bounded, moved: this.#moved },
      key: this.#key === null ? null : this.#place(this.#key),
      samples: SAMPLES.map((key) => this.#place(key)),
    };
    this.#stage.frame(text, state, tone);
  }
}

const byModulo = (key: string, workers: readonly string[]) => workers[hash32(key) % workers.length];

function pointsOf(value: unknown): number {
  const points = Math.floor(Number(value ?? 100));
  return Number.isFinite(points) ? Math.min(MOST_POINTS, Math.max(1, points)) : 100;
}
