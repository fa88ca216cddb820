/**
 * Waiting for the end of jobs. All that wait share one poller: one statement at a time asks for every job whose turn
 * it is, so a thousand waiting calls need one connection, and none while nothing is asked. A job is asked for at once,
 * then after pauses that grow from 20 ms to a second. A database that is away is waited for.
 */
import { type OutcomeRow, outcomesOf } from '../../inspect/job/states.js';
import { listQueues } from '../../inspect/queue/queues.js';
import { HoldfastError, invalid } from '../../job/errors/holdfast-error.js';
import { checkId } from '../../job/id.js';
import { checkDefinition, type JobDefinition } from '../../job/job.js';
import { type Duration, durationMs } from '../../job/options/duration.js';
import { checkKnown, type Known } from '../../job/options/known-options.js';
import { isTransient } from '../../postgres/connect/transient.js';
import { type Access, ask, ofQueue, type QueueChoice } from '../access.js';
import { findJobs, unknownJob } from './find-jobs.js';

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1_000;
const GROWTH = 1.5;
/** So many in one statement. */
const BATCH = 1_000;
/** Timers cannot wait longer. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** How long `hf.wait()` waits. */
export interface WaitChoice extends QueueChoice {
  /** After this time the wait rejects with WAIT_TIMEOUT; the job goes on. Default: none. */
  readonly timeout?: Duration;
  /** When it is aborted, the wait rejects with its reason; the job goes on. Default: none. */
  readonly signal?: AbortSignal;
}

const OPTIONS = { queue: true, timeout: true, signal: true } as const satisfies Known<WaitChoice>;

/** `hf.wait`: with the definition of the job, its result has the type that this declares. */
export interface Wait {
  (id: string, choice?: WaitChoice): Promise<JobOutcome>;
  <Input, Payload, Result>(
    job: JobDefinition<Input, Payload, Result>,
    id: string,
    choice?: Omit<WaitChoice, 'queue'>,
  ): Promise<JobOutcome<Result>>;
}

/**
 * How a job ended, from `hf.wait()`.
 * @example const { status, result, reason } = await hf.wait(run.id, { timeout: '30s' });
 */
export interface JobOutcome<Result = unknown> {
  readonly id: string;
  /** `unknown`: the job is in no queue, and a queue that keeps no archive may have had it; `reason` says which. */
  readonly status: 'completed' | 'cancelled' | 'dead_letter' | 'discarded' | 'unknown';
  /** Why the status is `unknown`; null: it is known. */
  readonly reason: string | null;
  /** What the handler returned; null: nothing, or it is unknown. */
  readonly result: Result | null;
  /** Why it was cancelled, or became a dead letter. */
  readonly error: string | null;
  /** Null if the status is unknown. */
  readonly attempts: number | null;
  /** When it left the queue; null for a dead letter, and if the status is unknown. */
  readonly completedAt: Date | null;
}

const ENDS: readonly (string | null)[] = ['completed', 'cancelled', 'dead_letter', 'discarded'];

/** What the definition says, where one was given. */
interface Expected<Result> {
  readonly type?: string | null;
  readonly check?: (outcome: JobOutcome) => Promise<JobOutcome<Result>>;
}

const REMEDY = "To wait for results, keep an archive for a minute (archiveRetention: '1m').";

interface Waiter {
  readonly id: string;
  /** Of the definition; null: any. */
  readonly type: string | null;
  /** As it was asked for; null: whichever has the job. */
  readonly named: string | null;
  queue: string;
  /** It was found once. */
  seen: boolean;
  readonly resolve: (outcome: JobOutcome) => void;
  readonly reject: (error: unknown) => void;
  pauseMs: number;
  /** On the clock of `performance`. */
  askAt: number;
}

export class Waiting {
  readonly #access: Access;
  readonly #waiters = new Set<Waiter>();
  #timer: NodeJS.Timeout | null = null;
  #timerAt = 0;
  #asking = false;

  constructor(access: Access) {
    this.#access = access;
  }

  readonly wait: Wait = async <Result>(
    job: JobDefinition<never, unknown, Result> | string,
    ...given: [(WaitChoice | string)?, WaitChoice?]
  ): Promise<JobOutcome<Result>> => {
    if (typeof job === 'string') return this.#wait<Result>(job, given[0] as WaitChoice);
    const [id, choice] = given as [string, WaitChoice?];
    checkDefinition(job, 'The first argument of wait()', 'Nobody waits.');
    const check = async (outcome: JobOutcome): Promise<JobOutcome<Result>> => {
      if (outcome.result === null) return { ...outcome, result: null };
      return { ...outcome, result: await job.checkResult(outcome.result) };
    };
    return this.#wait(id, { ...choice, queue: job.queue }, { type: job.type, check });
  };

  async #wait<Result>(
    id: string,
    choice: WaitChoice = {},
    {
      type = null,
      check = async (outcome) => outcome as JobOutcome<Result>,
    }: Expected<Result> = {},
  ): Promise<JobOutcome<Result>> {
    checkKnown(choice, OPTIONS, 'wait()', 'Nobody waits.');
    const { queue = 'inbox', timeout, signal } = choice;
    const named = choice.queue ?? null;
    // As Postgres writes it: answers are found by it.
    const checked = checkId(id).toLowerCase();
    this.#access.names(queue);
    const bounds = { min: 1, max: MAX_TIMEOUT_MS };
    const timeoutMs = timeout === undefined ? null : durationMs(timeout, 'timeout', bounds);
    signal?.throwIfAborted();
    let waiter!: Waiter;
    const ended = new Promise<JobOutcome<Result>>((answer, reject) => {
      const resolve = (outcome: JobOutcome) => {
        // Its check may take as long as it likes, and nobody asks for the job meanwhile.
        waiter.askAt = Number.POSITIVE_INFINITY;
        check(outcome).then(answer, reject);
      };
      const state = { pauseMs: FIRST_PAUSE_MS, askAt: 0, seen: false };
      waiter = { id: checked, named, type, queue, resolve, reject, ...state };
    });
    const aborted = () => waiter.reject(signal?.reason);
    signal?.addEventListener('abort', aborted, { once: true });
    const limit =
      timeoutMs === null
        ? null
        : setTimeout(() => waiter.reject(late(checked, timeoutMs)), timeoutMs);
    this.#waiters.add(waiter);
    this.#askAgain(0);
    try {
      return await ended;
    } finally {
      if (limit) clearTimeout(limit);
      signal?.removeEventListener('abort', aborted);
      this.#waiters.delete(waiter);
      if (this.#waiters.size === 0) this.#stopTimer();
    }
  }

  /** Rejects every wait; the jobs go on. */
  close(): void {
    for (const { id, reject } of this.#waiters) reject(closed(id));
  }

  #stopTimer(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #askAgain(at: number): void {
    if (this.#asking || (this.#timer && this.#timerAt <= at)) return;
    this.#stopTimer();
    this.#timerAt = at;
    this.#timer = setTimeout(() => void this.#round(), Math.max(0, at - performance.now()));
  }

  async #round(): Promise<void> {
    this.#timer = null;
    this.#asking = true;
    // Those whose turn is near come along.
    const until = performance.now() + FIRST_PAUSE_MS / 2;
    const due = [...this.#waiters].filter(({ askAt }) => askAt <= until);
    for (const queue of new Set(due.map((waiter) => waiter.queue))) {
      const waiters = due.filter((waiter) => waiter.queue === queue);
      for (let n = 0; n < waiters.length; n += BATCH)
        await this.#ask(queue, waiters.slice(n, n + BATCH));
    }
    this.#asking = false;
    let next = Number.POSITIVE_INFINITY;
    for (const { askAt } of this.#waiters) next = Math.min(next, askAt);
    if (next < Number.POSITIVE_INFINITY) this.#askAgain(next);
  }

  async #ask(queue: string, waiters: readonly Waiter[]): Promise<void> {
    const access = this.#access;
    const ids = [...new Set(waiters.map(({ id }) => id))];
    try {
      const rows = await ofQueue(access, { queue }, (names) =>
        ask(access, (db) => outcomesOf(db, names, ids)),
      );
      const byId = new Map(rows.map((row) => [row.id, row]));
      const rowOf = ({ id }: Waiter) => byId.get(id) as OutcomeRow;
      for (const waiter of waiters) answer(waiter, rowOf(waiter));
      const missing = waiters.filter((waiter) => rowOf(waiter).status === null);
      const elsewhere = await this.#elsewhere(missing);
      for (const waiter of missing)
        await this.#miss(waiter, rowOf(waiter), elsewhere.get(waiter.id));
    } catch (error) {
      if (isTransient(error)) for (const waiter of waiters) postpone(waiter);
      else for (const { reject } of waiters) reject(error);
    }
  }

  /** Its queue does not have it; `elsewhere` does, and is asked from now on. */
  async #miss(waiter: Waiter, row: OutcomeRow, elsewhere: string | undefined): Promise<void> {
    if (elsewhere !== undefined) {
      waiter.queue = elsewhere;
      waiter.askAt = 0;
    } else {
      const reason = await this.#whyUnknown(waiter, row);
      if (reason !== null) waiter.resolve(outcomeOf({ ...row, status: 'unknown' }, reason));
      else waiter.reject(await unknownJob(this.#access, waiter.named, waiter.id));
    }
  }

  /** Null: every queue that may have had the job keeps an archive, so there was no such job, or it was pruned. */
  async #whyUnknown({ id, named, seen, queue }: Waiter, row: OutcomeRow): Promise<string | null> {
    // A completed job left no trace here, but neither did one that was cancelled and pruned since.
    if (seen || named !== null) {
      if (row.keepsArchive) return null;
      const left = seen
        ? `Job ${id} has left the queue "${queue}"`
        : `The queue "${queue}" does not have job ${id}, or no longer`;
      return `${left}. This queue keeps no archive, so nobody knows how the job ended. ${REMEDY}`;
    }
    const queues = await ask(this.#access, (db) => listQueues(db, this.#access.schema));
    const without = queues.filter(({ archiveRetentionMs }) => archiveRetentionMs === 0);
    if (without.length === 0) return null;
    const names = without.map(({ name }) => `"${name}"`).join(', ');
    return (
      `No queue has job ${id}. It may have ended in ${names}, where no archive is kept, or it was never ` +
      `committed. Name its queue, or pass its definition, to exclude the other queues. ${REMEDY}`
    );
  }

  /** By id, the queue that has it; all that named none are looked for together. */
  async #elsewhere(waiters: readonly Waiter[]): Promise<Map<string, string>> {
    const any = waiters.filter(({ named, queue }) => named === null && queue === 'inbox');
    const ids = [...new Set(any.map(({ id }) => id))];
    const found = await findJobs(this.#access, ids);
    return new Map([...found].flatMap(([queue, here]) => here.map((id) => [id, queue] as const)));
  }
}

function answer(waiter: Waiter, row: OutcomeRow): void {
  if (row.status !== null) waiter.seen = true;
  const { id, type } = waiter;
  if (type !== null && row.type !== null && row.type !== type)
    waiter.reject(otherType(id, type, row.type));
  else if (ENDS.includes(row.status)) waiter.resolve(outcomeOf(row));
  else if (row.status !== null) postpone(waiter);
}

function postpone(waiter: Waiter): void {
  waiter.askAt = performance.now() + waiter.pauseMs;
  waiter.pauseMs = Math.min(waiter.pauseMs * GROWTH, LONGEST_PAUSE_MS);
}

function outcomeOf(row: OutcomeRow, reason: string | null = null): JobOutcome {
  const { id, attempts, completedAt, result, lastError: error } = row;
  const status = row.status as JobOutcome['status'];
  const at = completedAt === null ? null : new Date(completedAt);
  return { id, status, reason, result, error, attempts, completedAt: at };
}

function late(id: string, timeoutMs: number): HoldfastError {
  return new HoldfastError(
    'WAIT_TIMEOUT',
    `Job ${id} did not end within ${timeoutMs} ms; it was left as it is. ` +
      'Wait again, or ask hf.explain() why it does not run.',
  );
}

function otherType(id: string, given: string, type: string): HoldfastError {
  return invalid(
    `Job ${id} is a "${type}", and wait() was given the definition of "${given}"; the job was left as it is. ` +
      'Pass the definition of the job, or only its id.',
  );
}

function closed(id: string): HoldfastError {
  return new HoldfastError(
    'STOPPED',
    `hf.close() was called while job ${id} was waited for; the job was left as it is.`,
  );
}
