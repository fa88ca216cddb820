/**
 * What the tests of test/calm share: worker processes that note what happens to their jobs and when, queues
 * that are read by time and by key, and figures. The processes have default options, unless a test says
 * otherwise.
 */
import { onTestFinished } from 'vitest';
import { type EnqueueItem, type JobDefinition, job } from '../../packages/holdfast/src/index.js';
import { Child, type ChildWorkerOptions } from './child.js';
import { type Ground, ground } from './ground.js';
import { hearing } from './hears.js';
import { until } from './until.js';

export interface Note {
  /** `start`: its handler was called. `dead`: the worker has just learned of it. Others: events. */
  readonly what:
    | 'start'
    | 'completed'
    | 'failed'
    | 'dead_letter'
    | 'released'
    | 'lost'
    | 'dead'
    | 'started'
    | 'reregistered';
  readonly id: string;
  readonly type: string;
  readonly generation: number;
  readonly workerId?: string;
  /** Milliseconds of the monotonic clock that all processes share; see `nowMs`. */
  readonly at: number;
  /** Milliseconds of the clock that Postgres reads. */
  readonly wall: number;
}

/** The monotonic clock of the machine. */
export const nowMs = () => Number(process.hrtime.bigint()) / 1e6;

export interface CalmConfig {
  readonly options?: ChildWorkerOptions;
  readonly queues?: readonly string[];
  /** It starts when it is told to `go`. */
  readonly spare?: boolean;
}

export class CalmWorker extends Child {
  #notes: Note[] = [];
  #read = 0;

  constructor(url: string, config: CalmConfig = {}) {
    super('calm-worker', { url, ...config });
  }

  /** What it has noted so far. */
  get notes(): readonly Note[] {
    for (; this.#read < this.messages.length; this.#read++) {
      const { notes } = this.messages[this.#read] as unknown as { notes?: Note[] };
      for (const note of notes ?? []) this.#notes.push(note);
    }
    return this.#notes;
  }

  noted(what: Note['what']): Note[] {
    return this.notes.filter((note) => note.what === what);
  }

  get workerId(): string {
    return this.heard('started')?.workerId as string;
  }

  /** Ends all held jobs, also those that come later. */
  finish(): void {
    this.tell({ do: 'finish' });
  }
}

/** A worker that is registered and looks for jobs. */
export async function calmWorker(url: string, config: CalmConfig = {}): Promise<CalmWorker> {
  const worker = new CalmWorker(url, config);
  await worker.hears('started');
  return worker;
}

/** Waits until a worker has nothing to do and asks to be woken. */
export const idle = (db: CalmGround) =>
  until('a worker waits for hints', async () => (await waiters(db)) > 0);

/** Waits until all workers have so much to do that none asks to be woken. */
export const saturated = (db: CalmGround) =>
  until('nobody waits for hints', async () => (await waiters(db)) === 0, { everyMs: 5 });

const waiters = async (db: CalmGround) => (await db.rows(hearing(db.queue))).length;

export const calmFleet = (count: number, url: string, config: CalmConfig = {}) =>
  Promise.all(Array.from({ length: count }, () => calmWorker(url, config)));

/** A queue that is read by time, or one that is read by key. */
export const READ_BY = ['time', 'key'] as const;
export type ReadBy = (typeof READ_BY)[number];

export interface Payload {
  readonly n?: number;
  readonly ms?: number;
  readonly retryMs?: number;
}

export interface CalmGround extends Ground {
  /** The queue that this test is about. */
  readonly queue: string;
  readonly jobs: Readonly<
    Record<'quick' | 'held' | 'flaky' | 'poison', JobDefinition<Payload, Payload>>
  >;
  /** For workers of this queue. */
  readonly queues: readonly [string];
}

export async function calmGround(readBy: ReadBy = 'time'): Promise<CalmGround> {
  const db = await ground();
  const queue = readBy === 'time' ? 'inbox' : 'keyed';
  if (readBy === 'key') await db.hf.createQueue(queue, { ordering: 'key' });
  const define = (type: string) => job<Payload>(type, { queue });
  const jobs = {
    quick: define('quick'),
    held: define('held'),
    flaky: define('flaky'),
    poison: define('poison'),
  };
  return { ...db, queue, queues: [queue], jobs };
}

/** So many jobs of one kind. In a queue that is read by key each has a key of its own. */
export function many(
  count: number,
  definition: JobDefinition<Payload, Payload>,
  payload: Payload | ((n: number) => Payload) = {},
): EnqueueItem[] {
  return Array.from({ length: count }, (_, n) =>
    definition.item(typeof payload === 'function' ? payload(n) : payload),
  );
}

export const idsOf = (enqueued: readonly { readonly id: string }[]) =>
  new Set(enqueued.map(({ id }) => id));

/** What the workers have noted of these jobs, in the order of time. */
export function notesOf(
  fleet: readonly CalmWorker[],
  what: Note['what'],
  ids?: ReadonlySet<string>,
): Note[] {
  return fleet
    .flatMap((worker) => worker.noted(what))
    .filter(({ id }) => !ids || ids.has(id))
    .sort((a, b) => a.at - b.at);
}

/** Waits until this was noted of each of these jobs, and returns the first note of each in order of time. */
export async function allNoted(
  fleet: readonly CalmWorker[],
  what: Note['what'],
  ids: ReadonlySet<string>,
  timeoutMs = 30_000,
): Promise<Note[]> {
  const missing = new Set(ids);
  const read = new Map(fleet.map((worker) => [worker, 0]));
  const firsts = new Map<string, Note>();
  const all = () => {
    for (const [worker, from] of read) {
      for (const note of worker.notes.slice(from)) {
        if (note.what !== what || !ids.has(note.id)) continue;
        missing.delete(note.id);
        const first = firsts.get(note.id);
        if (!first || note.at < first.at) firsts.set(note.id, note);
      }
      read.set(worker, worker.notes.length);
    }
    return missing.size === 0;
  };
  await until(`${ids.size} jobs are noted as ${what}`, all, { timeoutMs, everyMs: 10 }).catch(
    (error) => {
      throw new Error(`${error.message}; ${missing.size} are missing`, { cause: error });
    },
  );
  return [...firsts.values()].sort((a, b) => a.at - b.at);
}

/** The time of the last note, from a moment on. */
export const lastAfter = (notes: readonly Note[], since: number) =>
  Math.max(...notes.map(({ at }) => at)) - since;

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] as number;
}

/** Says what was measured when CALM_FIGURES is set. */
export function figure(what: string, value: number, unit = 'ms'): void {
  if (process.env.CALM_FIGURES) process.stderr.write(`  ${what}: ${value.toFixed(1)} ${unit}\n`);
}

/** How long `count` bare timers of `ms` take here, one after the other, beside what is measured. */
export async function bareTimers(count: number, ms: number): Promise<number> {
  const from = nowMs();
  for (let n = 0; n < count; n++) await new Promise((resolve) => setTimeout(resolve, ms));
  return nowMs() - from;
}

/**
 * How late the machine itself is: a timer of this process and a small commit after it, again and again. The
 * function that is returned says what was the most between two moments of `Date.now()`.
 */
export async function machineLateness(
  db: CalmGround,
): Promise<(from: number, to: number) => number> {
  const EVERY_MS = 5;
  const probes: { from: number; to: number; ms: number }[] = [];
  await db.pool.query('CREATE TABLE probe AS SELECT 0 AS n');
  let on = true;
  const probing = (async () => {
    while (on) {
      const from = Date.now();
      const due = performance.now() + EVERY_MS;
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
      await db.pool.query('UPDATE probe SET n = n + 1');
      probes.push({ from, to: Date.now(), ms: performance.now() - due });
    }
  })();
  onTestFinished(async () => {
    on = false;
    await probing;
  });
  return (from, to) =>
    Math.max(0, ...probes.filter((one) => one.from <= to && one.to >= from).map(({ ms }) => ms));
}
