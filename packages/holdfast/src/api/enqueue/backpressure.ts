/**
 * Whether a queue may take more jobs: asked before an enqueue writes anything.
 *
 * A process knows the last count of each queue that it enqueues into, and adds what it has enqueued itself since. It
 * asks again after a second if the queue has a limit, and after ten if it has none: so producers of other queues pay one
 * small question in ten seconds, and an idle process none. Enqueues that come while it is asked share the answer.
 */
import { countWaiting, type Pressure, pressureOf } from '../../enqueue/pressure.js';
import { HoldfastError } from '../../job/errors/holdfast-error.js';
import { isOutage } from '../../postgres/connect/transient.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';

/** For how long an answer holds. */
const LIMITED_MS = 1_000;
const UNLIMITED_MS = 10_000;
/** Nobody counts: there is neither a live worker nor a producer outside of transactions. */
const UNCOUNTED_MS = 5_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;
/** Enqueues within this time are one entry. */
const ENTRY_MS = 50;

export interface Admission {
  readonly names: Names;
  readonly jobs: number;
  /** The caller's transaction; null: there is none. */
  readonly tx: Executor | null;
  /** Null: refuse at once. */
  readonly waitMs: number | null;
}

interface Known {
  readonly pressure: Pressure;
  readonly askedAt: number;
}

interface Question {
  readonly from: number;
  readonly answer: Promise<Known>;
}

export class Backpressure {
  /** Statements outside of any transaction. */
  readonly #outside: () => Promise<Executor>;
  readonly #known = new Map<string, Known>();
  /** By queue, what is being asked and counted now, outside of any transaction. */
  readonly #asking = new Map<string, Question>();
  readonly #counting = new Set<string>();
  /** By queue, what was enqueued here, and when. */
  readonly #own = new Map<string, { at: number; jobs: number }[]>();
  readonly #sleeping = new Map<() => void, NodeJS.Timeout>();
  /** How often it was closed: it can be used again, as its pools can. */
  #closes = 0;

  constructor(outside: () => Promise<Executor>) {
    this.#outside = outside;
  }

  /** Resolves when the jobs may be written; rejects with QUEUE_FULL. */
  async admit(admission: Admission): Promise<void> {
    const { names, jobs, waitMs } = admission;
    const [began, closes] = [performance.now(), this.#closes];
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      const { pressure, askedAt } = await this.#ask(admission);
      const { maxPending } = pressure;
      if (maxPending === null) return;
      const waiting = pressure.waiting + this.#since(names.queue, askedAt - pressure.ageMs);
      if (waiting + jobs <= maxPending) {
        this.#add(names.queue, jobs);
        return;
      }
      if (this.#closes > closes) throw closed(names.queue);
      const leftMs = waitMs === null ? 0 : began + waitMs - performance.now();
      if (leftMs <= 0 || jobs > maxPending) throw full(admission, waiting, maxPending);
      await this.#pause(Math.min(pauseMs, leftMs));
      if (this.#closes > closes) throw closed(names.queue);
    }
  }

  /** Those that wait for room are told. */
  close(): void {
    this.#closes++;
    for (const [wake, timer] of this.#sleeping) {
      clearTimeout(timer);
      wake();
    }
  }

  async #ask({ names, tx }: Admission): Promise<Known> {
    const before = this.#known.get(names.queue);
    const lastsMs = before?.pressure.maxPending == null ? UNLIMITED_MS : LIMITED_MS;
    if (before && performance.now() - before.askedAt < lastsMs) return before;
    return tx ? this.#learn(names, this.#askInside(tx, names)) : this.#askTogether(names);
  }

  async #learn({ queue }: Names, answer: Promise<Pressure>): Promise<Known> {
    const pressure = await answer;
    const known = { pressure, askedAt: performance.now() };
    this.#known.set(queue, known);
    return known;
  }

  /** In the caller's transaction nothing is written; where nobody else counts, it is done beside it. */
  async #askInside(tx: Executor, names: Names): Promise<Pressure> {
    const pressure = await pressureOf(tx, names);
    if (pressure.recount && pressure.ageMs > UNCOUNTED_MS) this.#countBeside(names);
    return pressure;
  }

  #countBeside(names: Names): void {
    if (this.#counting.has(names.queue)) return;
    this.#counting.add(names.queue);
    void this.#outside()
      .then((db) => countWaiting(db, names))
      .catch(() => undefined)
      .finally(() => this.#counting.delete(names.queue));
  }

  /** One question for all that come while it is asked. One that a dead connection swallows is shared for a second only. */
  #askTogether(names: Names): Promise<Known> {
    const { queue } = names;
    const before = this.#asking.get(queue);
    const from = performance.now();
    if (before && from - before.from < LIMITED_MS) return before.answer;
    const question = { from, answer: this.#learn(names, this.#askOutside(names)) };
    this.#asking.set(queue, question);
    const over = () => {
      if (this.#asking.get(queue) === question) this.#asking.delete(queue);
    };
    question.answer.then(over, over);
    return question.answer;
  }

  async #askOutside(names: Names): Promise<Pressure> {
    try {
      const db = await this.#outside();
      const pressure = await pressureOf(db, names);
      if (!pressure.recount || !(await isCounted(db, names))) return pressure;
      return await pressureOf(db, names);
    } catch (error) {
      if (isOutage(error)) throw error;
      // What else keeps the database from it, such as a schema that is not there, is said by the enqueue.
      return { maxPending: null, waiting: 0, ageMs: 0, recount: false };
    }
  }

  /** What was enqueued here since that time. */
  #since(queue: string, time: number): number {
    const entries = (this.#own.get(queue) ?? []).filter(({ at }) => at >= time);
    this.#own.set(queue, entries);
    return entries.reduce((sum, { jobs }) => sum + jobs, 0);
  }

  #add(queue: string, jobs: number): void {
    const at = performance.now();
    const entries = this.#own.get(queue) ?? [];
    const last = entries.at(-1);
    // The later time counts: rather counted twice for a moment than not at all.
    if (last && at - last.at < ENTRY_MS)
      entries[entries.length - 1] = { at, jobs: last.jobs + jobs };
    else entries.push({ at, jobs });
    this.#own.set(queue, entries);
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.#sleeping.delete(wake);
        resolve();
      };
      this.#sleeping.set(wake, setTimeout(wake, ms));
    });
  }
}

function full({ names, jobs, waitMs }: Admission, waiting: number, most: number): HoldfastError {
  const { queue } = names;
  if (jobs > most) {
    return new HoldfastError(
      'QUEUE_FULL',
      `${jobs} jobs in one call are more than may wait in the queue "${queue}" (maxPending: ${most}); ` +
        'nothing was enqueued. Split the call, or raise maxPending.',
    );
  }
  const after = waitMs === null ? '' : ` after ${waitMs} ms`;
  return new HoldfastError(
    'QUEUE_FULL',
    `The queue "${queue}" is full${after}: about ${waiting} jobs wait, and ${most} may (maxPending); nothing was ` +
      "enqueued. Try again later, wait with onFull: 'wait', add workers, or raise maxPending.",
  );
}

function closed(queue: string): HoldfastError {
  return new HoldfastError(
    'STOPPED',
    `hf.close() was called while an enqueue waited for room in the queue "${queue}"; nothing was enqueued.`,
  );
}

/** False: a time limit of the role, or somebody's lock, kept it from being counted; what was known holds on. */
async function isCounted(db: Executor, names: Names): Promise<boolean> {
  try {
    await countWaiting(db, names);
    return true;
  } catch (error) {
    if (isOutage(error)) throw error;
    return false;
  }
}
