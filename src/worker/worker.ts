/**
 * The worker: puts the loops together, and takes them apart again.
 *
 * It survives what databases do: every loop meets errors with a jittered backoff and goes on, and no
 * error of a connection, a handler or a listener ends the process. When the registry says that this
 * worker is dead (it was frozen or cut off), everything it held is lost, and it goes on under a new id.
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type pg from 'pg';
import { leave, markDraining, register } from '../fleet/registry.js';
import { HoldfastError } from '../job/errors.js';
import { describeError } from '../job/failure.js';
import type { JobDefinition } from '../job/job.js';
import { childLogger, type Logger } from '../postgres/log.js';
import {
  type ConnectionOptions,
  closePool,
  enginePool,
  isTransient,
  plainPool,
} from '../postgres/pool.js';
import { type Executor, engineExecutor } from '../postgres/queryable.js';
import { checkSchema } from '../schema/migrate.js';
import { Backoff, pause } from './backoff.js';
import type { HandlerContext } from './context.js';
import type { WorkerEvent, WorkerStats } from './events.js';
import { HousekeepingLoop } from './housekeeping-loop.js';
import { Isolation } from './isolation.js';
import { Keeper } from './keeper.js';
import { resolveOptions, type Settings, type WorkerOptions } from './options.js';
import { QueueRunner } from './queue-runner.js';
import { checkQueues, queuesToServe } from './queues.js';
import type { Handler, Route } from './run.js';
import { Settler } from './settler.js';
import { onSignals } from './signals.js';

export interface WorkerGround {
  readonly connection: ConnectionOptions;
  readonly pool: pg.Pool;
  readonly schema: string;
  readonly log: Logger;
  readonly maxPayloadBytes: number;
  readonly prepare: boolean;
}

type State = 'new' | 'starting' | 'running' | 'stopping' | 'stopped';

export function newWorkerId(): string {
  return `${hostname()}-${process.pid}-${randomBytes(3).toString('hex')}`;
}

export class Worker {
  readonly stats: WorkerStats = {
    claimed: 0,
    completed: 0,
    failed: 0,
    buried: 0,
    snoozed: 0,
    released: 0,
    cancelled: 0,
    lost: 0,
  };
  readonly #ground: WorkerGround;
  readonly #settings: Settings;
  readonly #log: Logger;
  readonly #routes = new Map<string, Route>();
  #state: State = 'new';
  #id = newWorkerId();
  #pool: pg.Pool | null = null;
  /** Ordinary connections for what the worker itself reads and writes beside the queue table. */
  #house: pg.Pool | null = null;
  #keeper: Keeper | null = null;
  #runners: QueueRunner[] = [];
  #isolation: Isolation | null = null;
  #dead: readonly string[] = [];
  #housekeeping: HousekeepingLoop | null = null;
  #abandon = new AbortController();
  #halt = new AbortController();
  #finished: Promise<void> | null = null;
  #finish: () => void = () => {};

  constructor(ground: WorkerGround, options: WorkerOptions) {
    this.#ground = ground;
    this.#settings = resolveOptions(options);
    this.#log = childLogger(ground.log, { component: 'worker' });
  }

  /** The id under which this worker is registered now; it changes when the worker is reborn. */
  get id(): string {
    return this.#id;
  }

  handle<Input, Output>(
    job: JobDefinition<Input, Output>,
    handler: (context: HandlerContext<Output>) => unknown,
  ): this {
    if (this.#state !== 'new') {
      throw new HoldfastError(
        'WORKER_STATE',
        `The worker is ${this.#state}; add handlers before run().`,
      );
    }
    if (this.#routes.has(job.type)) {
      throw new HoldfastError(
        'OPTION_INVALID',
        `There is a handler for "${job.type}" already; it was kept.`,
      );
    }
    this.#routes.set(job.type, {
      job: job as unknown as Route['job'],
      handler: handler as unknown as Handler,
    });
    return this;
  }

  /** Starts the worker; resolves when it has stopped. Rejects when it cannot start at all. */
  async run(): Promise<void> {
    if (this.#state !== 'new') {
      throw new HoldfastError(
        'WORKER_STATE',
        `The worker is ${this.#state}; make a new one to run again.`,
      );
    }
    this.#state = 'starting';
    this.#finished = new Promise((resolve) => {
      this.#finish = resolve;
    });
    const release = this.#settings.handleSignals ? onSignals(() => void this.stop()) : () => {};
    try {
      await this.#start();
      await this.#finished;
    } catch (error) {
      this.#state = 'stopped';
      if (this.#pool) await closePool(this.#pool, 500);
      this.#finish();
      throw error;
    } finally {
      release();
    }
  }

  async #start(): Promise<void> {
    const queues = queuesToServe(this.#routes, this.#settings.queues);
    const queryTimeoutMs = Math.max(5_000, Math.floor(this.#settings.leaseMs / 3));
    const connection = { ...this.#ground.connection, queryTimeoutMs };
    const pool = enginePool(connection, 2 * queues.length + 2, this.#log);
    this.#pool = pool;
    const engine = engineExecutor(pool, { prepare: this.#ground.prepare });
    await this.#untilReachable(async () => {
      await checkSchema(pool, this.#ground.schema);
      await checkQueues(pool, this.#ground.schema, queues);
      await this.#register(engine, this.#id);
    });
    if (this.#halt.signal.aborted) return this.#takeApart();
    this.#assemble(engine, queues);
    this.#state = 'running';
    this.#emit({ kind: 'started', workerId: this.#id });
    for (const runner of this.#runners) runner.pump();
    this.#housekeeping?.start();
  }

  /** A database that is away for now is waited for; one that refuses us is an error. */
  async #untilReachable(work: () => Promise<void>): Promise<void> {
    const backoff = new Backoff();
    while (!this.#halt.signal.aborted) {
      try {
        return await work();
      } catch (error) {
        if (!isTransient(error)) throw error;
        this.#trouble('starting', error);
        await pause(backoff.nextMs(), this.#halt.signal);
      }
    }
  }

  #names(queue: string) {
    return { schema: this.#ground.schema, queue };
  }

  #register(engine: Executor, id: string): Promise<void> {
    return register(engine, this.#names('inbox'), id, this.#metadata());
  }

  #metadata(): object {
    return {
      host: hostname(),
      pid: process.pid,
      node: process.version,
      concurrency: this.#settings.concurrency,
      types: [...this.#routes.keys()],
      ...this.#settings.metadata,
    };
  }

  #assemble(engine: Executor, queues: readonly string[]): void {
    const { connection, pool, schema, maxPayloadBytes } = this.#ground;
    const settings = this.#settings;
    const house = plainPool(connection, 4, this.#log);
    this.#house = house;
    const plain = engineExecutor(house, { prepare: this.#ground.prepare });
    const trouble = (what: string, error: unknown) => this.#trouble(what, error);
    const { leaseMs, renewMs, heartbeatMs, stallMs } = settings;
    const { prepare } = this.#ground;
    this.#keeper = new Keeper(
      {
        connectionString: connection.connectionString,
        schema,
        queues,
        workerId: this.#id,
        metadata: this.#metadata(),
        leaseMs,
        renewMs,
        heartbeatMs,
        stallMs,
        prepare,
      },
      {
        lost: (queue, jobs) => this.#runners.find((one) => one.queue === queue)?.lose(jobs),
        dead: (id) => void this.#rebirth(engine, id),
        deadWorkers: (ids) => this.#learnDead(ids),
        trouble,
        held: () => this.#runners.flatMap((runner) => [...runner.held()]),
      },
    );
    this.#housekeeping = new HousekeepingLoop({
      enginePool: this.#pool as pg.Pool,
      plainPool: house,
      prepare,
      schema,
      queues,
      intervalMs: settings.housekeepingMs,
      ttlMs: settings.ttlMs,
      workerId: () => this.#id,
      found: (ids) => this.#learnDead([...ids, ...this.#dead]),
      emit: (event) => this.#emit(event),
      trouble,
    });
    this.#isolation = new Isolation({
      handBack: () => this.#runners.forEach((runner) => void runner.handBack()),
      resume: () => this.#runners.forEach((runner) => void runner.pump()),
    });
    for (const queue of queues) {
      const names = this.#names(queue);
      this.#runners.push(
        new QueueRunner(queue, {
          settings,
          routes: this.#routes,
          engine,
          settler: new Settler({
            engine,
            plain,
            names,
            trouble,
            abandoned: this.#abandon.signal,
          }),
          keeper: this.#keeper,
          isolation: this.#isolation,
          context: { names, pool, house, plain, engine, log: this.#log, maxPayloadBytes },
          stats: this.stats,
          workerId: () => this.#id,
          deadWorkers: () => this.#dead,
          emit: (event) => this.#emit(event),
          trouble,
        }),
      );
    }
  }

  #learnDead(ids: readonly string[]): void {
    const news = ids.some((id) => !this.#dead.includes(id));
    this.#dead = ids;
    if (news && this.#state === 'running') for (const runner of this.#runners) runner.wake();
  }

  /** Declared dead while away: nothing that was held counts any more, and a new life begins. */
  async #rebirth(engine: Executor, was: string): Promise<void> {
    if (was !== this.#id) return;
    this.#log.warn({ worker: was }, 'this worker was declared dead; it goes on under a new id');
    for (const runner of this.#runners) {
      runner.loseAll(was);
      runner.hold(true);
    }
    const next = newWorkerId();
    await this.#untilReachable(() => this.#register(engine, next)).catch((error) =>
      this.#trouble('registering again', error),
    );
    this.#id = next;
    this.#keeper?.identify(next);
    for (const runner of this.#runners) {
      // What a claim brought that was under way was claimed in the name of the dead.
      runner.loseAll(was);
      runner.hold(false);
    }
    this.#emit({ kind: 'reborn', workerId: this.#id, was });
  }

  /** Drains and ends: no new claims, running handlers get the grace period, the rest is handed back. */
  async stop(options: { graceMs?: number } = {}): Promise<void> {
    if (this.#state === 'new') this.#state = 'stopped';
    if (this.#state === 'stopped') return;
    if (this.#state === 'starting') {
      this.#halt.abort();
    } else if (this.#state === 'running') {
      this.#state = 'stopping';
      await this.#drain(options.graceMs ?? this.#settings.graceMs);
      await this.#takeApart();
    }
    await this.#finished;
  }

  async #drain(graceMs: number): Promise<void> {
    this.#housekeeping?.stop();
    const engine = engineExecutor(this.#pool as pg.Pool, { prepare: this.#ground.prepare });
    const said = markDraining(engine, this.#names('inbox'), this.#id).catch((error) =>
      this.#trouble('announcing the drain', error),
    );
    this.#isolation?.stop();
    const empty = await Promise.all(this.#runners.map((runner) => runner.drain(graceMs)));
    this.#abandon.abort();
    await within(said, 1_000);
    const left = leave(engine, this.#names('inbox'), this.#id, empty.every(Boolean)).catch(
      (error) => this.#trouble('leaving the registry', error),
    );
    await within(left, 1_000);
  }

  async #takeApart(): Promise<void> {
    this.#halt.abort();
    await this.#keeper?.stop();
    await Promise.all([this.#pool, this.#house].map((pool) => pool && closePool(pool, 500)));
    this.#state = 'stopped';
    this.#emit({ kind: 'stopped', workerId: this.#id });
    this.#finish();
  }

  #emit(event: WorkerEvent): void {
    const complain = (error: unknown) =>
      this.#log.error({ err: describeError(error).message }, 'an onEvent listener failed');
    try {
      const answer: unknown = this.#settings.onEvent(event);
      if (answer instanceof Promise) answer.catch(complain);
    } catch (error) {
      complain(error);
    }
  }

  #trouble(what: string, error: unknown): void {
    if (isTransient(error)) this.#housekeeping?.sawOutage();
    const { message, code } = describeError(error);
    this.#log.warn({ what, err: message, code }, 'trouble');
    this.#emit({ kind: 'trouble', what, error });
  }
}

/** Waits for a promise, but not for ever: at the end of a process a dead database must not hold it. */
async function within(work: Promise<unknown>, ms: number): Promise<void> {
  const limit = new AbortController();
  await Promise.race([work, pause(ms, limit.signal)]);
  limit.abort();
}
