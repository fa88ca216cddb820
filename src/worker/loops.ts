/**
 * The loops of a worker, put together: keeper, services, quarantine, membership, wake-ups, and one worker for
 * each queue. Here is what one of them has to tell another: a changed fleet becomes new shares of the ring, a
 * death becomes a recovery, a death of our own a new registration.
 */
import { setMaxListeners } from 'node:events';
import type pg from 'pg';
import { findUnhandled } from '../inspect/fleet/unhandled.js';
import { passwordFunction, sendable } from '../postgres/address.js';
import { LockGate } from '../postgres/lock-gate.js';
import { plainPool } from '../postgres/pool.js';
import { BEGIN_UNLIMITED } from '../postgres/pooled.js';
import { plainExecutor } from '../postgres/queryable.js';
import { keepBacklog, readDue, writeTicks } from '../schedule/tick.js';
import { IdlePoll } from './claim/idle-poll.js';
import { Wakeups } from './claim/wakeups.js';
import type { SharedDeps } from './deps.js';
import { Keeper } from './lease/keeper.js';
import { QueueWorker } from './queue-worker.js';
import { Leaks } from './run/leaks.js';
import { Quarantine } from './run/quarantine.js';
import { maintenanceServices } from './services/maintenance.js';
import { Membership } from './services/membership.js';
import { Recovery } from './services/recovery.js';
import { ScheduleTicker } from './services/schedules.js';
import { transactionWith } from './services/service.js';
import { ServiceLoop } from './services/service-loop.js';
import { watchUnhandled } from './services/unhandled.js';
import { Settler } from './settle/settler.js';
import { Trouble } from './trouble.js';
import type { WorkerDeps } from './worker.js';

/** Beside those of the engine. */
const OWN_CONNECTIONS = 4;

type OfWorker = 'address' | 'direct' | 'pool' | 'maxPayloadBytes' | 'tracing';

export interface LoopsDeps extends SharedDeps, Pick<WorkerDeps, OfWorker> {
  readonly enginePool: pg.Pool;
  /** By channel, the queues. */
  readonly channels: ReadonlyMap<string, string>;
  readonly metadata: object;
  /** When the registration was sent, by `monotonicMs`. */
  readonly registeredAt: number;
  /** The registry has declared this worker dead. */
  readonly dead: (workerId: string) => void;
  /** The registry calls this worker draining; it may be draining already. */
  readonly drainAsked: () => void;
  /** So many handlers run on without their jobs that the worker should be started anew. */
  readonly leaked: (handlers: number) => void;
  /** The listener may have a way of its own: if that is closed, the database is not away. */
  readonly reportListenerError: (what: string, error: unknown) => void;
}

export class Loops {
  readonly keeper: Keeper;
  readonly services: ServiceLoop;
  readonly wakeups: Wakeups;
  readonly queues: readonly QueueWorker[];
  /** Ordinary connections for what the worker itself reads and writes beside the queue table. */
  readonly ownPool: pg.Pool;
  /** Aborted when the worker gives up waiting for the database at the very end. */
  readonly abandon = new AbortController();
  readonly leaks: Leaks;
  /** For these connections. */
  readonly #gate: LockGate;
  readonly #trouble: Trouble;
  readonly #deps: LoopsDeps;
  readonly #quarantine: Quarantine;
  readonly #membership: Membership;
  readonly #recovery: Recovery;
  #stopUnhandled = () => {};
  readonly #schedules: ScheduleTicker;
  readonly #idlePoll: IdlePoll;

  constructor(deps: LoopsDeps) {
    // While the database is away, every job that is being settled listens to it.
    setMaxListeners(0, this.abandon.signal);
    this.#deps = deps;
    const { settings, mode, time, log } = deps;
    const own = { ...deps.address, pooled: mode.pooled === true, unlimited: true };
    this.ownPool = plainPool(own, OWN_CONNECTIONS, log);
    this.#gate = new LockGate(OWN_CONNECTIONS, deps.queues.length);
    this.keeper = this.#makeKeeper();
    this.#recovery = new Recovery(deps);
    this.#trouble = new Trouble(log, deps.emit);
    this.leaks = new Leaks({
      ...{ time, log, emit: deps.emit, graceMs: settings.leakGraceMs, max: settings.maxLeaked },
      changed: () => this.#trouble.leaked(this.leaks.counts),
      drain: () => this.#deps.leaked(this.leaks.total),
    });
    this.services = new ServiceLoop({
      ...deps,
      services: maintenanceServices(settings.maintenanceMs, this.#recovery, (ids) =>
        this.#membership.recordDead(ids),
      ),
    });
    const releaseWaiting = () => {
      for (const { runs } of this.queues) runs.releaseWaiting();
    };
    const leaked = () => this.leaks.total;
    this.#quarantine = new Quarantine({ releaseWaiting, resume: () => this.pump(), leaked }, time);
    this.#membership = new Membership({
      ...deps,
      queueWorkers: () => this.queues,
      changed: () => this.#schedules.membersChanged(),
      recover: (queues) => void this.#recovery.recover(queues),
    });
    this.wakeups = this.#makeWakeups();
    this.#schedules = this.#makeSchedules();
    this.queues = deps.queues.map((queue) => this.#makeQueue(queue));
    this.#idlePoll = new IdlePoll({
      ...deps,
      queues: () => this.queues,
      listening: () => this.wakeups.listening(),
      recordRound: (queue, agoMs, unused) => this.services.recordRound(queue, agoMs, unused),
    });
  }

  /**
   * Before the first handler: it may block this thread, and then the other must be at work. Rejects when
   * that cannot run.
   */
  async prepare(): Promise<void> {
    await this.keeper.start();
    this.wakeups.start();
    await this.keeper.watched();
  }

  async start(): Promise<void> {
    await this.#membership.start();
    // A claim takes over leases that ran out and holds each against its job; here it is seen who vanished together.
    await this.recover();
    for (const queue of this.queues) queue.hold(false);
    this.services.start();
    this.#stopUnhandled = this.#watchUnhandled();
    this.#schedules.start();
    this.#idlePoll.start();
  }

  /** What the worker does beside its jobs ends; those are drained by their queues. */
  stop(): void {
    this.services.stop();
    this.#recovery.stop();
    this.#stopUnhandled();
    this.#schedules.stop();
    this.#idlePoll.stop();
    this.#membership.stop();
    this.#quarantine.stop();
  }

  pump(): void {
    for (const queue of this.queues) queue.pump();
  }

  /** How many handlers run. */
  get running(): number {
    return this.queues.reduce((sum, { runs }) => sum + runs.running, 0);
  }

  /** Under a new id from now on. */
  identify(workerId: string): void {
    this.keeper.identify(workerId);
    this.wakeups.identify(workerId);
    void this.#membership.refresh();
  }

  /** Returns what dead workers held to the queues. */
  recover(): Promise<void> {
    return this.#recovery.recover(this.#deps.queues);
  }

  #queue(name: string): QueueWorker | undefined {
    return this.queues.find(({ queue }) => queue === name);
  }

  #makeKeeper(): Keeper {
    const { address, direct, settings, schema, queues, mode, metadata, registeredAt } = this.#deps;
    const { livenessLock, leaseMs, renewMs, heartbeatMs, ttlMs, stallMs } = settings;
    const password = passwordFunction(address);
    return new Keeper(
      {
        address: sendable(address),
        asksPasswords: password !== null,
        direct: direct && sendable(direct),
        pooled: mode.pooled === true,
        prepare: mode.prepare,
        workerId: this.#deps.workerId(),
        ...{ schema, queues, metadata, registeredAt },
        ...{ livenessLock, leaseMs, renewMs, heartbeatMs, ttlMs, stallMs },
      },
      {
        ready: () => this.pump(),
        lost: (queue, jobs) => this.#queue(queue)?.lose(jobs),
        dead: this.#deps.dead,
        beat: (workerId) => {
          this.#deps.emit({ kind: 'heartbeat', workerId });
          this.pump();
        },
        gone: (ids) => this.#membership.recordDead(ids),
        epoch: (epoch) => this.#membership.recordEpoch(epoch),
        drainAsked: this.#deps.drainAsked,
        error: this.#deps.reportError,
        ...(password && { password }),
        load: () => ({
          running: this.running,
          held: this.queues.reduce((sum, { inFlight }) => sum + inFlight.held, 0),
          attempts: Object.fromEntries(
            this.queues.map((one) => [one.queue, one.inFlight.attempts]),
          ),
          trouble: this.#trouble.report,
        }),
      },
    );
  }

  #watchUnhandled(): () => void {
    const { schema, settings, enginePool, mode } = this.#deps;
    return watchUnhandled({
      ...this.#deps,
      maintenanceMs: settings.maintenanceMs,
      isFirst: () => this.#membership.isFirst,
      queues: () => this.#membership.queues,
      find: ({ name: queue, ordering }, graceMs) =>
        // Dead rows may lie at the front of the queue.
        transactionWith(enginePool, mode, `; SET LOCAL statement_timeout = '1s'`, (db) =>
          findUnhandled(db, { schema, queue }, { keyed: ordering !== 'none', graceMs }),
        ),
    });
  }

  #makeSchedules(): ScheduleTicker {
    const { schema, engine } = this.#deps;
    return new ScheduleTicker({
      ...this.#deps,
      read: (of, limit) => readDue(engine, { schema, queue: 'inbox' }, of, limit),
      behind: (queue) => keepBacklog(engine, { schema, queue }),
      write: (queue, ticks) => writeTicks(engine, { schema, queue }, ticks),
      leads: () => this.#membership.leads,
      members: () => this.#membership.size,
      listening: () => this.wakeups.listening(),
    });
  }

  #makeWakeups(): Wakeups {
    const { address, direct, settings, engine, workerId, reportListenerError } = this.#deps;
    return new Wakeups({
      ...this.#deps,
      reportError: reportListenerError,
      address: direct ?? address,
      on: settings.notify,
      livenessLock: settings.livenessLock,
      workerId: workerId(),
      other: engine,
      hint: (queue, hint) => this.#queue(queue)?.claims.hint(hint),
      listening: (queue) => this.#queue(queue)?.claims.listening(),
      fleetChanged: () => void this.#membership.refresh(),
      schedulesChanged: (at) => this.#schedules.hint(at),
    });
  }

  #makeQueue(queue: string): QueueWorker {
    const { schema, mode, emit } = this.#deps;
    const gate = this.#gate;
    const names = { schema, queue };
    const { ownPool } = this;
    const plain = gate.executor(plainExecutor(ownPool, mode));
    return new QueueWorker(queue, {
      ...this.#deps,
      ...{ keeper: this.keeper, quarantine: this.#quarantine, wakeups: this.wakeups },
      settler: new Settler({
        ...{ ...this.#deps, plain, names },
        took: (statement, ms) => emit({ kind: 'statement', queue, statement, ms }),
        abandoned: this.abandon.signal,
        keptChanged: (jobs, change, error) => this.#trouble.kept(queue, jobs, change, error),
      }),
      context: {
        ...{ ...this.#deps, names, ownPool, plain, gate, leaks: this.leaks },
        ...(mode.pooled && { begin: BEGIN_UNLIMITED }),
      },
      recordEpoch: (epoch) => this.#membership.recordEpoch(epoch),
      recordRound: (name, agoMs) => this.services.recordRound(name, agoMs),
    });
  }
}
