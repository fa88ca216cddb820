/**
 * Works everything off, here and now: jobs are claimed and run one after the other, and where all that is left
 * is delayed, time moves forward to the next of them. Nothing waits. A job that nobody handles, and work that
 * does not end, are errors.
 */
import { type Duration, type Holdfast, HoldfastError, type QueueName, type Worker } from 'holdfast';
import type { LeasedJob } from 'holdfast/internal';
import {
  checkInteger,
  checkKnown,
  declareHooks,
  durationMs,
  type Known,
  MAX_DELAY_MS,
  recover,
  wakeRuns,
} from 'holdfast/internal';
import { advance } from './clock.js';
import { depsOf, invalid } from './deps.js';
import { nextDueMs, pausedKey, pendingKinds, queueStates } from './rows.js';
import { outcomeOf, type TestOutcome, TestWorker } from './test-worker.js';

/** Which jobs `drain()` runs. */
export interface DrainOptions {
  /** A worker with its handlers, that does not run: `hf.worker().handle(job, handler)`. */
  readonly worker: Worker;
  /** Default: every queue of which the worker handles a job. */
  readonly queue?: QueueName;
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

/**
 * Runs all jobs of a worker's queues, and moves time forward until none is left.
 * @example
 * worker.handle(sendReceipt, async ({ payload }) => mail.send(payload.orderId));
 * const { completed } = await drain(hf, { worker, until: '1h' });
 */
export async function drain(hf: Holdfast, options: DrainOptions): Promise<DrainCounts> {
  const deps = depsOf(hf);
  const { ownPool, schema } = deps;
  checkKnown(options, OPTIONS, 'drain()', 'Nothing was run.');
  const { routes, timeoutMs } = handlersOf(options?.worker);
  const handled = [...new Set([...routes.values()].map(({ job }) => job.queue))];
  const { queue: only, until, limit = 1_000 } = options;
  if (only !== undefined && !handled.includes(only))
    throw missing(
      `The worker handles no job of the queue ${JSON.stringify(only)}; nothing was run. It handles jobs of ${handled.join(', ')}.`,
    );
  const queues = only === undefined ? handled : [only];
  const worker = new TestWorker(deps, routes, timeoutMs);
  const asks = typeof until === 'function';
  const farMs =
    until === undefined || asks
      ? Number.POSITIVE_INFINITY
      : durationMs(until, 'until', { max: MAX_DELAY_MS });
  const mostAttempts = checkInteger(limit, 'limit', 1, 1_000_000);
  const counts = {
    completed: 0,
    retry: 0,
    dead_letter: 0,
    snoozed: 0,
    waiting: 0,
    cancelled: 0,
    lost: 0,
  };
  /** By type, how many attempts. */
  const ran = new Map<string, number>();
  let [attempts, movedMs] = [0, 0];

  async function states(of = queues) {
    const all = await queueStates(ownPool, schema);
    return of.map((queue) => {
      const state = all.find(({ name }) => name === queue);
      if (state) return state;
      throw new HoldfastError(
        'QUEUE_UNKNOWN',
        `There is no queue "${queue}", so nothing was run. Make it with hf.createQueue("${queue}").`,
      );
    });
  }

  async function claim(from: Awaited<ReturnType<typeof states>>): Promise<LeasedJob[]> {
    for (const { name, ordering } of from) {
      const held = await worker.claimNext(deps.names(name), ordering);
      if (held) return [held];
    }
    for (const { name, ordering } of from) {
      const names = deps.names(name);
      await recover(deps.engine, names, { limit: 1_000, recoverer: worker.id });
      await wakeRuns(deps.engine, names, 1_000);
      const held = await worker.claimNext(names, ordering);
      if (held) return [held];
      const suspects = await worker.claimSuspects(names);
      if (suspects.length > 0) return suspects;
    }
    return [];
  }

  /** True: it is enough. */
  async function run(held: LeasedJob): Promise<boolean> {
    const { type } = held.row;
    attempts++;
    ran.set(type, (ran.get(type) ?? 0) + 1);
    const end = await worker.run(held);
    const outcome = outcomeOf(end, await hf.job(held.id, { queue: held.queue }));
    if (outcome !== 'crashed') counts[outcome]++;
    if (asks && (await until())) return true;
    if (attempts >= mostAttempts && (await result()).left > 0) throw endless();
    return false;
  }

  /** To the next job that is due, if `until` allows it. */
  async function moveOn(): Promise<boolean> {
    const waits: number[] = [];
    for (const queue of queues) {
      const ms = await nextDueMs(ownPool, deps.names(queue), [...routes.keys()]);
      if (ms !== null) waits.push(ms);
    }
    const ms = Math.min(...waits);
    if (waits.length === 0 || movedMs + ms > farMs) return false;
    await advance(hf, ms);
    movedMs += ms;
    return true;
  }

  async function result(): Promise<DrainCounts> {
    let left = 0;
    for (const queue of queues)
      for (const { count } of await pendingKinds(ownPool, deps.names(queue))) left += count;
    return { ...counts, movedMs, left };
  }

  function endless(): HoldfastError {
    const most = [...ran].sort(([, a], [, b]) => b - a).slice(0, 3);
    const list = most.map(([type, count]) => `${type} (${count} attempts)`).join(', ');
    return new HoldfastError(
      'JOB_STATE',
      `drain has run ${attempts} attempts and there is still work: ${list}. ` +
        'A job snoozes again and again, or jobs enqueue each other for ever. Stop it with until, or allow more with limit.',
    );
  }

  async function checkLeft(): Promise<void> {
    for (const { name, paused, pausedTypes } of await states()) {
      const left = await pendingKinds(ownPool, deps.names(name));
      const foreign = left.filter(({ type, version }) => {
        const { job, workflow } = routes.get(type) ?? {};
        if (workflow && job?.queue === name) return !workflow.bodies.has(version);
        return job?.queue !== name || job.version < version;
      });
      if (foreign.length > 0) throw unhandled(name, foreign);
      const held = left.find(({ type }) => pausedTypes.includes(type));
      if (paused && left.length > 0) throw isPaused(name, 'Jobs', 'which is', '');
      if (paused) continue;
      if (held) {
        const shown = `type: "${held.type}"`;
        throw isPaused(name, `Jobs of the type "${held.type}"`, 'where it is', `, { ${shown} }`);
      }
      const key = JSON.stringify(await pausedKey(ownPool, deps.names(name)));
      if (key === 'null') continue;
      throw isPaused(name, `Jobs of the key ${key}`, 'where it is', `, { key: ${key} }`);
    }
  }

  /** As a worker says it when it starts: the database writes what tells of a dead letter. */
  async function declareDeadLetters(): Promise<void> {
    const jobs = [...routes.values()].map(({ job }) => job);
    await states(jobs.flatMap(({ onDeadLetter }) => onDeadLetter?.queue ?? []));
    for (const queue of queues) {
      const own = jobs.filter((job) => job.queue === queue);
      const hooks = own.map(({ type, onDeadLetter: hook = null }) => ({ type, hook }));
      await declareHooks(deps.engine, deps.names(queue), hooks);
    }
  }

  const first = await states();
  await declareDeadLetters();
  for (let last = false; ; ) {
    const held = await claim(first);
    for (const job of held) if (await run(job)) return result();
    if (held.length === 0 && last) break;
    // A job may have become due between the two questions, so the end is asked for once more.
    last = held.length === 0 && !(await moveOn());
  }
  await checkLeft();
  return result();
}

const missing = (text: string) => new HoldfastError('HANDLER_MISSING', text);

const isPaused = (queue: string, jobs: string, where: string, part: string) =>
  new HoldfastError(
    'JOB_STATE',
    `${jobs} wait in the queue "${queue}", ${where} paused; they were not run. Call hf.resume("${queue}"${part}) first.`,
  );

function handlersOf(worker: Worker | undefined) {
  if (typeof worker?.handlers !== 'object')
    throw invalid(
      'drain needs a worker that knows the handlers; nothing was run. Call it as drain(hf, { worker: hf.worker().handle(job, handler) }).',
    );
  const { handlers } = worker;
  if (handlers.routes.size > 0) return handlers;
  throw missing(
    'The worker that drain was given handles no job; nothing was run. Add handlers with worker.handle(job, handler).',
  );
}

function unhandled(
  queue: string,
  kinds: readonly { type: string; version: number; count: number }[],
): HoldfastError {
  const list = kinds.map(
    ({ type, version, count }) => `${count} × ${type}${version > 1 ? ` (version ${version})` : ''}`,
  );
  return missing(
    `Jobs are left in the queue "${queue}" that nobody handles: ${list.join(', ')}. Everything else was run. ` +
      'Add worker.handle(job, handler) for them, or empty the queue before the test with clearJobs(hf).',
  );
}
