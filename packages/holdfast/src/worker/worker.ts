/**
 * The worker: puts the loops together, and takes them apart again. Every loop meets errors with a jittered backoff and
 * goes on; no error of a connection, a handler or a listener ends the process.
 */
import type pg from 'pg';
import { HoldfastError } from '../job/errors/errors.js';
import { describeError } from '../job/errors/failure.js';
import type { Duration } from '../job/options/duration.js';
import { checkKnown } from '../job/options/known-options.js';
import { VERSION } from '../job/options/version.js';
import { sendable } from '../postgres/connect/address.js';
import { LAST_MS } from '../postgres/connect/backoff.js';
import { newLockGate } from '../postgres/connect/lock-gate.js';
import { closePool, databaseOf, enginePool as newEnginePool } from '../postgres/connect/pool.js';
import { type BoundedLogger, boundedLogger } from '../postgres/log/bounded-log.js';
import { childLogger } from '../postgres/log/log.js';
import { engineExecutor } from '../postgres/queryable.js';
import { checkSchema } from '../schema/migrate.js';
import { MAX_CONNECTIONS, type WorkerDeps } from './deps.js';
import { emitterOf, noStats, type WorkerStats } from './events.js';
import { Handling } from './handlers.js';
import { monotonicMs } from './lease/protocol.js';
import { type Loops, newLoops } from './loops.js';
import { graceMs, resolveOptions, type Settings, type WorkerOptions } from './options.js';
import { checkWays, findPooler, outageOf, untilReachable, wasAway } from './reachable.js';
import { bodiesOf, handlesOf, openQueues, queuesToServe, typesOf } from './routes.js';
import type { Route } from './run/handler-context.js';
import { servicesOf } from './services/added.js';
import {
  metadataOf,
  newRegistration,
  newWorkerId,
  type Registration,
} from './services/registration.js';
import { exitAfter, onSignals } from './signals.js';
import { systemTime } from './time.js';

type State = 'new' | 'starting' | 'running' | 'stopping' | 'stopped';

/** Runs your handlers. Make it with `hf.worker()`. */
export class Worker extends Handling {
  /** How many jobs this worker has claimed, and how they ended. */
  readonly stats: WorkerStats = noStats();
  readonly #deps: WorkerDeps;
  readonly #settings: Settings;
  readonly #log: BoundedLogger;
  readonly #outage: ReturnType<typeof outageOf>;
  readonly #events: ReturnType<typeof emitterOf>;
  readonly #halt = new AbortController();
  #state: State = 'new';
  readonly #firstId = newWorkerId();
  #pool: pg.Pool | null = null;
  #loops: Loops | null = null;
  #registration: Registration | null = null;
  #signalled = false;
  #finish: () => void = () => {};
  readonly #finished = new Promise<void>((resolve) => {
    this.#finish = resolve;
  });

  constructor(deps: WorkerDeps, options: WorkerOptions) {
    super();
    this.#deps = deps;
    // Refused here and not in the middle of the start.
    sendable(deps.address);
    this.#settings = resolveOptions(options);
    this.#log = boundedLogger(childLogger(deps.log, { component: 'worker' }), systemTime);
    this.#outage = outageOf(this.#log);
    this.#events = emitterOf(this.#settings.onEvent, deps.listeners, (error) =>
      this.#log.error({ err: describeError(error).message }, 'an onEvent listener failed'),
    );
  }

  /** The id under which this worker is registered now; it changes when the worker registers again. */
  get id(): string {
    return this.#registration?.id ?? this.#firstId;
  }

  /** Aborted once this worker begins to stop: it claims nothing more, and its handlers have their grace. */
  get stopping(): AbortSignal {
    return this.#halt.signal;
  }

  /** What is handled, by type, and the time limit of handlers: for the test kit, which runs them itself. */
  get handlers() {
    const { timeoutMs } = this.#settings;
    return { routes: this.routes as ReadonlyMap<string, Route>, timeoutMs };
  }

  protected checkNew(instead: string): void {
    if (this.#state === 'new') return;
    throw new HoldfastError('WORKER_STATE', `The worker is ${this.#state}; ${instead}.`);
  }

  /**
   * Starts the worker; resolves when it has stopped. Rejects if it cannot start at all.
   * @example await worker.run();
   */
  async run(): Promise<void> {
    this.checkNew('make a new one to run again');
    const leave = this.#deps.enter(this);
    this.#state = 'starting';
    const release = this.#settings.handleSignals
      ? onSignals(() => void this.#stop(this.#settings.graceMs, true))
      : () => {};
    try {
      await this.#start();
      await this.#finished;
    } catch (error) {
      this.#state = 'stopped';
      if (this.#pool) await closePool(this.#pool, LAST_MS);
      this.#finish();
      throw error;
    } finally {
      release();
      leave();
    }
  }

  async #start(): Promise<void> {
    const { address, prepare, schema } = this.#deps;
    const log = this.#log;
    const halt = this.#halt.signal;
    const reportError = this.#reportError;
    const routes = this.routes;
    const queues = queuesToServe(routes, this.#settings.queues);
    const pooled = this.#deps.pooler ?? (await findPooler({ halt, reportError }, address, log));
    if (pooled && this.#deps.direct === null) {
      log.info(
        {},
        'behind a pooler: the liveness lock and notifications are off; listenUrl brings them back',
      );
    }
    if (halt.aborted) return this.#takeApart(false, 0);
    const mode = { prepare, pooled };
    const connections = Math.min(2 * queues.length + 2, MAX_CONNECTIONS);
    const connection = { ...address, queryTimeoutMs: this.#settings.queryTimeoutMs, pooled };
    const enginePool = newEnginePool(connection, connections, log);
    this.#pool = enginePool;
    const gate = newLockGate(connections, queues.length);
    const engine = this.#outage.watch(gate.executor(engineExecutor(enginePool, mode)));
    const handles = handlesOf(routes, queues);
    const metadata = metadataOf(this.#settings);
    const bodies = bodiesOf(routes, queues);
    const known = { engine, schema, handles, bodies, metadata, halt, reportError, log };
    const registration = newRegistration(this.#firstId, known);
    this.#registration = registration;
    const entered = await untilReachable(known, 'starting', async () => {
      await checkWays(enginePool, this.#deps, log);
      await checkSchema(enginePool, schema, queues);
      const channels = await openQueues(engine, schema, routes, queues);
      const registeredAt = monotonicMs();
      await registration.enter();
      return { channels, registeredAt };
    });
    const goBack = async () => {
      await registration.leave(true);
      await this.#takeApart(false, 0);
    };
    if (!entered || halt.aborted) return goBack();
    const loops = newLoops({
      ...{ ...this.#deps, ...this.#events, ...entered },
      ...{ enginePool, engine, mode, queues, metadata, registration, reportError },
      ...{ settings: this.#settings, routes, log, stats: this.stats, time: systemTime },
      added: servicesOf(this),
      drainAsked: (leaked) => this.#drainAsked(leaked),
      reportListenerError: this.#warn,
    });
    this.#loops = loops;
    try {
      await loops.prepare();
    } catch (error) {
      await goBack();
      throw error;
    }
    this.#state = 'running';
    log.info(
      { worker: this.id, queues, ...databaseOf(address), schema, version: VERSION },
      'worker started',
    );
    this.#events.emit({ kind: 'started', workerId: this.id, handles: typesOf(handles) });
    if (halt.aborted) void this.#stop(0, this.#signalled);
    else await loops.start();
  }

  /** As a signal would: a handler that does not end must not keep the process for ever. */
  #drainAsked(leaked?: number): void {
    if (this.#state !== 'running') return;
    if (leaked !== undefined)
      this.#log.error(
        { worker: this.id, leaked },
        'as many handlers run on without their jobs as maxLeaked allows: the worker drains, to be started anew',
      );
    void this.#stop(this.#settings.graceMs, this.#settings.handleSignals);
  }

  /**
   * Stops the worker: it claims nothing more, gives handlers the grace period, and releases the rest.
   * @example await worker.stop({ grace: '10s' });
   */
  async stop(
    options: {
      /** How long handlers may run on. Default: the worker's `grace`. */
      grace?: Duration;
    } = {},
  ): Promise<void> {
    checkKnown(options, { grace: true }, 'worker.stop()', 'The worker goes on.');
    return this.#stop(graceMs(options.grace) ?? this.#settings.graceMs, false);
  }

  /** `await using worker = hf.worker()`: it is stopped where its scope ends. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #stop(graceMs: number, signalled: boolean): Promise<void> {
    if (this.#state === 'new') this.#state = 'stopped';
    if (this.#state === 'stopped') return;
    this.#signalled ||= signalled;
    this.#halt.abort();
    if (this.#state === 'running') {
      this.#state = 'stopping';
      const loops = this.#loops as Loops;
      const graceEndsAt = performance.now() + graceMs;
      this.#log.info({ worker: this.id, running: loops.running, graceMs }, 'worker stopping');
      await loops.drain(graceMs);
      // Handlers that go on after their jobs were released may keep the process for ever.
      const left = loops.running + loops.leaks.total > 0;
      await this.#takeApart(this.#signalled && left, graceEndsAt);
    }
    await this.#finished;
  }

  /** `exit`: handlers are left that may keep the process; it exits soon after the grace period. */
  async #takeApart(exit: boolean, graceEndsAt: number): Promise<void> {
    this.#halt.abort();
    const pool = this.#pool;
    this.#pool = null;
    await Promise.all([this.#loops?.close(), pool && closePool(pool, LAST_MS)]);
    this.#state = 'stopped';
    this.#log.flush();
    const { completed, failed, dead_letter: deadLetters, released, lost } = this.stats;
    this.#log.info(
      { worker: this.id, completed, failed, deadLetters, released, lost },
      'worker stopped',
    );
    this.#events.emit({ kind: 'stopped', workerId: this.id });
    // The program has a moment for its own end, when run() has resolved.
    if (exit) exitAfter(Math.max(LAST_MS, graceEndsAt + 11 * LAST_MS - performance.now()));
    this.#finish();
  }

  readonly #reportError = (what: string, error: unknown): void => {
    const confirmedAgoMs = this.#loops?.keeper.confirmedAgoMs() ?? Number.POSITIVE_INFINITY;
    if (wasAway(error, confirmedAgoMs, this.#settings.queryTimeoutMs)) {
      this.#outage.record();
      this.#loops?.services.recordOutage();
    }
    this.#warn(what, error);
  };

  readonly #warn = (what: string, error: unknown): void => {
    const { message, code } = describeError(error);
    this.#log.warn({ what, err: message, code }, 'worker error');
    this.#events.emit({ kind: 'error', what, error });
  };
}
