/**
 * Works everything off, here and now: jobs are claimed and run one after the other, and where all that is left
 * is delayed, time moves forward to the next of them. Nothing waits. A job that nobody handles, and work that
 * does not end, are errors.
 */
import type { Holdfast, Worker } from 'holdfast';
import { type Duration, HoldfastError } from 'holdfast';
import type { LeasedJob, Route } from 'holdfast/internal';
import {
  checkInteger,
  checkKnown,
  durationMs,
  type Known,
  MAX_DELAY_MS,
  recover,
} from 'holdfast/internal';
import { advance } from './clock.js';
import { depsOf, type TestDeps } from './deps.js';
import { outcomeOf, type TestOutcome } from './outcome.js';
import { nextDueMs, pausedKey, pendingKinds, type QueueState, queueStates } from './rows.js';
import { TestWorker } from './test-worker.js';

export interface DrainOptions {
  /** A worker with its handlers, that does not run: `hf.worker().handle(job, handler)`. */
  readonly worker: Worker;
  /** Default: every queue of which the worker handles a job. */
  readonly queue?: string;
  /**
   * How far time may move, such as `'1h'`: what is due later is left. Or a function that is asked after each
   * attempt: when it says true, the rest is left. Default: until nothing is left.
   */
  readonly until?: Duration | (() => boolean | Promise<boolean>);
  /** After so many attempts it gives up: something does not end. Default 1,000. */
  readonly limit?: number;
}

const OPTIONS = {
  ...{ worker: true, queue: true, until: true, limit: true },
} as const satisfies Known<DrainOptions>;

/** How many attempts ended how. */
export type DrainCounts = Readonly<Record<Exclude<TestOutcome, 'crashed'>, number>> & {
  /** By how much time was moved forward, in milliseconds. */
  readonly movedMs: number;
  /** How many jobs of these queues still wait: due after `until`, or behind a dead letter that holds its key. */
  readonly left: number;
};

const DEFAULT_LIMIT = 1_000;

export async function drain(hf: Holdfast, options: DrainOptions): Promise<DrainCounts> {
  const deps = depsOf(hf);
  checkKnown(options, OPTIONS, 'drain()', 'Nothing was run.');
  return new Drain(deps, options).work();
}

class Drain {
  readonly #deps: TestDeps;
  readonly #routes: ReadonlyMap<string, Route>;
  readonly #queues: readonly string[];
  readonly #worker: TestWorker;
  readonly #until: () => boolean | Promise<boolean>;
  readonly #farMs: number;
  readonly #limit: number;
  readonly #counts = { completed: 0, retry: 0, dead_letter: 0, snoozed: 0, cancelled: 0, lost: 0 };
  /** By type, how many attempts. */
  readonly #ran = new Map<string, number>();
  #attempts = 0;
  #movedMs = 0;

  constructor(deps: TestDeps, options: DrainOptions) {
    this.#deps = deps;
    const { routes, timeoutMs } = handlersOf(options?.worker);
    this.#routes = routes;
    const handled = [...new Set([...routes.values()].map(({ job }) => job.queue))];
    const { queue, until, limit = DEFAULT_LIMIT } = options;
    if (queue !== undefined && !handled.includes(queue)) throw unhandledQueue(queue, handled);
    this.#queues = queue === undefined ? handled : [queue];
    this.#worker = new TestWorker(deps, routes, timeoutMs);
    this.#until = typeof until === 'function' ? until : () => false;
    this.#farMs =
      until === undefined || typeof until === 'function'
        ? Number.POSITIVE_INFINITY
        : durationMs(until, 'until', { max: MAX_DELAY_MS });
    this.#limit = checkInteger(limit, 'limit', 1, 1_000_000);
  }

  async work(): Promise<DrainCounts> {
    const queues = await this.#states();
    for (let last = false; ; ) {
      const held = await this.#claim(queues);
      for (const job of held) if (await this.#run(job)) return this.#result();
      if (held.length === 0 && last) break;
      // A job may have become due between the two questions, so the end is asked for once more.
      last = held.length === 0 && !(await this.#moveOn());
    }
    await this.#checkLeft();
    return this.#result();
  }

  async #states(): Promise<readonly QueueState[]> {
    const states = await queueStates(this.#deps.ownPool, this.#deps.schema);
    return this.#queues.map((queue) => {
      const state = states.find(({ name }) => name === queue);
      if (state) return state;
      throw new HoldfastError(
        'QUEUE_UNKNOWN',
        `There is no queue "${queue}", so nothing was run. Make it with hf.createQueue("${queue}").`,
      );
    });
  }

  async #claim(queues: readonly QueueState[]): Promise<LeasedJob[]> {
    for (const { name, ordering } of queues) {
      const held = await this.#worker.claimNext(this.#deps.names(name), ordering);
      if (held) return [held];
    }
    for (const { name, ordering } of queues) {
      const names = this.#deps.names(name);
      await recover(this.#deps.engine, names, { limit: 1_000, recoverer: this.#worker.id });
      const held = await this.#worker.claimNext(names, ordering);
      if (held) return [held];
      const suspects = await this.#worker.claimSuspects(names);
      if (suspects.length > 0) return suspects;
    }
    return [];
  }

  /** True: it is enough. */
  async #run(held: LeasedJob): Promise<boolean> {
    const { type } = held.row;
    this.#attempts++;
    this.#ran.set(type, (this.#ran.get(type) ?? 0) + 1);
    const end = await this.#worker.run(held);
    const row = await this.#deps.hf.job(held.id, { queue: held.queue });
    const outcome = outcomeOf(end, row);
    if (outcome !== 'crashed') this.#counts[outcome]++;
    if (await this.#until()) return true;
    if (this.#attempts >= this.#limit && (await this.#result()).left > 0) throw this.#endless();
    return false;
  }

  /** To the next job that is due, if `until` allows it. */
  async #moveOn(): Promise<boolean> {
    const types = [...this.#routes.keys()];
    const waits: number[] = [];
    for (const queue of this.#queues) {
      const ms = await nextDueMs(this.#deps.ownPool, this.#deps.names(queue), types);
      if (ms !== null) waits.push(ms);
    }
    if (waits.length === 0) return false;
    const ms = Math.min(...waits);
    if (this.#movedMs + ms > this.#farMs) return false;
    await advance(this.#deps.hf, ms);
    this.#movedMs += ms;
    return true;
  }

  async #result(): Promise<DrainCounts> {
    let left = 0;
    for (const queue of this.#queues) {
      const kinds = await pendingKinds(this.#deps.ownPool, this.#deps.names(queue));
      left += kinds.reduce((sum, { count }) => sum + count, 0);
    }
    return { ...this.#counts, movedMs: this.#movedMs, left };
  }

  #endless(): HoldfastError {
    const most = [...this.#ran].sort(([, a], [, b]) => b - a).slice(0, 3);
    const list = most.map(([type, count]) => `${type} (${count} attempts)`).join(', ');
    return new HoldfastError(
      'JOB_STATE',
      `drain has run ${this.#attempts} attempts and there is still work: ${list}. ` +
        'A job snoozes again and again, or jobs enqueue each other for ever. Stop it with until, or allow more with limit.',
    );
  }

  async #checkLeft(): Promise<void> {
    for (const { name, paused, pausedTypes } of await this.#states()) {
      const left = await pendingKinds(this.#deps.ownPool, this.#deps.names(name));
      const foreign = left.filter(({ type, version }) => !this.#handles(name, type, version));
      if (foreign.length > 0) throw unhandled(name, foreign);
      const held = left.find(({ type }) => pausedTypes.includes(type));
      if (!paused && held) {
        throw new HoldfastError(
          'JOB_STATE',
          `Jobs of the type "${held.type}" wait in the queue "${name}", where it is paused; they were not run. ` +
            `Call hf.resume("${name}", { type: "${held.type}" }) first.`,
        );
      }
      const key = paused ? null : await pausedKey(this.#deps.ownPool, this.#deps.names(name));
      if (key !== null) {
        const shown = JSON.stringify(key);
        throw new HoldfastError(
          'JOB_STATE',
          `Jobs of the key ${shown} wait in the queue "${name}", where it is paused; they were not run. ` +
            `Call hf.resume("${name}", { key: ${shown} }) first.`,
        );
      }
      if (!paused || left.length === 0) continue;
      throw new HoldfastError(
        'JOB_STATE',
        `Jobs wait in the queue "${name}", which is paused; they were not run. Call hf.resume("${name}") first.`,
      );
    }
  }

  #handles(queue: string, type: string, version: number): boolean {
    const job = this.#routes.get(type)?.job;
    return job?.queue === queue && job.version >= version;
  }
}

function handlersOf(worker: Worker | undefined) {
  if (typeof worker?.handlers !== 'object') {
    throw new HoldfastError(
      'OPTION_INVALID',
      'drain needs a worker that knows the handlers; nothing was run. Call it as drain(hf, { worker: hf.worker().handle(job, handler) }).',
    );
  }
  const { handlers } = worker;
  if (handlers.routes.size === 0) {
    throw new HoldfastError(
      'HANDLER_MISSING',
      'The worker that drain was given handles no job; nothing was run. Add handlers with worker.handle(job, handler).',
    );
  }
  return handlers;
}

function unhandledQueue(queue: string, handled: readonly string[]): HoldfastError {
  return new HoldfastError(
    'HANDLER_MISSING',
    `The worker handles no job of the queue ${JSON.stringify(queue)}; nothing was run. It handles jobs of ${handled.join(', ')}.`,
  );
}

function unhandled(
  queue: string,
  kinds: readonly { type: string; version: number; count: number }[],
): HoldfastError {
  const list = kinds
    .map(
      ({ type, version, count }) =>
        `${count} × ${type}${version > 1 ? ` (version ${version})` : ''}`,
    )
    .join(', ');
  return new HoldfastError(
    'HANDLER_MISSING',
    `Jobs are left in the queue "${queue}" that nobody handles: ${list}. Everything else was run. ` +
      'Add worker.handle(job, handler) for them, or empty the queue before the test with clearJobs(hf).',
  );
}
