/**
 * The loops of a worker, and what they tell each other: a changed fleet means new shares of the ring, a death a
 * recovery, our own death a new registration.
 */
import { setMaxListeners } from 'node:events';
import type pg from 'pg';
import { usedOf } from '../claim/due.js';
import { findUnhandled } from '../inspect/fleet/unhandled.js';
import { passwordFunction, sendable } from '../postgres/connect/address.js';
import { LAST_MS } from '../postgres/connect/backoff.js';
import { LockGate } from '../postgres/connect/lock-gate.js';
import { closePool, plainPool } from '../postgres/connect/pool.js';
import { BEGIN_UNLIMITED } from '../postgres/connect/pooled.js';
import { plainExecutor } from '../postgres/queryable.js';
import { keepBacklog, readDue, writeTicks } from '../schedule/tick.js';
import { IdlePoll } from './claim/idle-poll.js';
import { Wakeups } from './claim/wakeups.js';
import { OWN_CONNECTIONS, type SharedDeps, type WorkerDeps } from './deps.js';
import { type Keeper, newKeeper } from './lease/keeper.js';
import { QueueWorker } from './queue-worker.js';
import type { ContextDeps } from './run/context-deps.js';
import { type Leaks, newLeaks } from './run/leaks.js';
import { newQuarantine, type Quarantine } from './run/quarantine.js';
import { maintenanceServices } from './services/maintenance.js';
import { type Membership, newMembership } from './services/membership.js';
import { newRecovery, type Recovery } from './services/recovery.js';
import type { Registration } from './services/registration.js';
import { newScheduleTicker, type ScheduleTicker } from './services/schedules.js';
import { newServiceLoop, type ServiceLoop, transactionWith } from './services/service-loop.js';
import { watchUnhandled } from './services/unhandled.js';
import { newSettler } from './settle/settler.js';
import { newTrouble, type Trouble } from './trouble.js';

interface LoopsDeps extends Omit<SharedDeps, 'workerId' | 'standing'>, WorkerDeps {
  readonly registration: Registration;
  readonly enginePool: pg.Pool;
  readonly channels: ReadonlyMap<string, string>;
  readonly metadata: object;
  readonly registeredAt: number;
  /** The registry calls this worker draining; or so many handlers run on without their jobs that it should be. */
  readonly drainAsked: (leaked?: number) => void;
  /** The listener may have a way of its own: if that is closed, the database is not away. */
  readonly reportListenerError: (what: string, error: unknown) => void;
}

export class Loops {
  readonly keeper: Keeper;
  readonly services: ServiceLoop;
  readonly wakeups: Wakeups;
  readonly queues: readonly QueueWorker[];
  readonly leaks: Leaks;
  /** Ordinary connections for what the worker itself reads and writes beside the queue table, and their gate. */
  readonly #own: Pick<ContextDeps, 'ownPool' | 'gate' | 'plain' | 'begin'>;
  /** Aborted when the worker gives up waiting for the database at the very end. */
  readonly #abandon = new AbortController();
  readonly #trouble: Trouble;
  readonly #deps: LoopsDeps & SharedDeps;
  readonly #quarantine: Quarantine;
  readonly #membership: Membership;
  readonly #recovery: Recovery;
  #stopUnhandled = () => {};
  #draining = false;
  readonly #schedules: ScheduleTicker;
  readonly #idlePoll: IdlePoll;

  constructor(given: LoopsDeps) {
    // While the database is away, every job that is being settled listens to it.
    setMaxListeners(0, this.#abandon.signal);
    const { settings, registration } = given;
    const deps: LoopsDeps & SharedDeps = {
      ...given,
      workerId: () => registration.id,
      standing: (id) => {
        if (!registration.isOurs(id)) return 'dead';
        return this.keeper.aliveForMs() > 0 ? 'alive' : 'unknown';
      },
    };
    this.#deps = deps;
    this.#own = ownConnections(deps);
    this.keeper = this.#makeKeeper();
    this.#recovery = newRecovery(deps);
    this.#trouble = newTrouble(deps);
    this.leaks = newLeaks(deps);
    this.#quarantine = newQuarantine({
      ...{ time: deps.time, leaks: this.leaks, resume: () => this.pump() },
      releaseWaiting: () => {
        for (const { runs } of this.queues) runs.releaseWaiting();
      },
    });
    this.#membership = newMembership({
      ...{ ...deps, queueWorkers: () => this.queues, recover: this.#recovery.recover },
      changed: () => this.#schedules.membersChanged(),
    });
    const { recordDead } = this.#membership;
    const services = maintenanceServices(settings.maintenanceMs, this.#recovery, recordDead);
    this.services = newServiceLoop({ ...deps, services });
    this.wakeups = this.#makeWakeups();
    const listening = () => this.wakeups.listening();
    this.#schedules = this.#makeSchedules(listening);
    this.queues = deps.queues.map((queue) => this.#makeQueue(queue));
    const { recordRound } = this.services;
    this.#idlePoll = new IdlePoll({
      ...{ ...deps, queues: () => this.queues, listening, recordRound },
      servers: this.#membership.servers,
    });
  }

  /** Before the first handler, which may block this thread: then the keeper must be at work. Rejects if it cannot run. */
  async prepare(): Promise<void> {
    await this.keeper.start();
    this.wakeups.start();
    await this.keeper.watched();
  }

  async start(): Promise<void> {
    await this.#membership.start();
    // A claim takes over leases that ran out and holds each against its job; here it is seen who vanished together.
    await this.#recovery.recover(this.#deps.queues);
    // Whoever is stopped while it starts must start nothing that nobody stops again.
    if (this.#draining) return;
    for (const queue of this.queues) queue.hold(false);
    this.services.start();
    this.#stopUnhandled = this.#watchUnhandled();
    this.#schedules.start();
    this.#idlePoll.start();
  }

  /** Ends what the worker does beside its jobs, then its jobs: running handlers get the grace period. */
  async drain(graceMs: number): Promise<void> {
    const { registration } = this.#deps;
    this.#draining = true;
    this.services.stop();
    this.#recovery.stop();
    this.#stopUnhandled();
    this.#schedules.stop();
    this.#idlePoll.stop();
    this.#membership.stop();
    this.#quarantine.stop();
    const said = registration.announceDrain();
    const gone = await Promise.all(this.queues.map((queue) => queue.drain(graceMs)));
    this.#abandon.abort();
    await said();
    await registration.leave(gone.every(Boolean));
    await this.wakeups.stop();
    this.leaks.stop();
  }

  async close(): Promise<void> {
    await Promise.all([this.keeper.stop(), closePool(this.#own.ownPool, LAST_MS)]);
  }

  pump(): void {
    for (const queue of this.queues) queue.pump();
  }

  get running(): number {
    return this.queues.reduce((sum, { runs }) => sum + runs.running, 0);
  }

  /** Declared dead while away: nothing that was held counts any more. It registers again under a new id. */
  async #reregister(was: string): Promise<void> {
    const { registration, emit } = this.#deps;
    // The thread may say it twice, if it was started anew meanwhile.
    if (!registration.isOurs(was)) return;
    const entered = registration.enterAgain();
    for (const queue of this.queues) {
      queue.hold(true);
      queue.loseAll(was);
    }
    if (!(await entered)) return;
    const { id } = registration;
    this.keeper.identify(id);
    this.wakeups.identify(id);
    void this.#membership.refresh();
    // What a claim brought meanwhile was claimed under the dead id.
    for (const queue of this.queues) queue.loseAll(was);
    await this.#recovery.recover(this.#deps.queues);
    for (const queue of this.queues) queue.hold(false);
    emit({ kind: 'reregistered', workerId: id, was });
  }

  #queue(name: string): QueueWorker | undefined {
    return this.queues.find(({ queue }) => queue === name);
  }

  #makeKeeper(): Keeper {
    const { address, direct, settings, schema, queues, mode, metadata, registeredAt } = this.#deps;
    const { livenessLock, leaseMs, renewMs, heartbeatMs, ttlMs, stallMs } = settings;
    const password = passwordFunction(address);
    return newKeeper(
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
        dead: (id) => void this.#reregister(id),
        beat: (workerId) => {
          this.#deps.emit({ kind: 'heartbeat', workerId });
          this.pump();
        },
        gone: (ids) => this.#membership.recordDead(ids),
        epoch: (epoch) => this.#membership.recordEpoch(epoch),
        drainAsked: () => this.#deps.drainAsked(),
        error: this.#deps.reportError,
        ...(password && { password }),
        load: () => ({
          running: this.running,
          held: this.queues.reduce((sum, { inFlight }) => sum + inFlight.held, 0),
          attempts: Object.fromEntries(
            this.queues.map((one) => [one.queue, one.inFlight.attempts]),
          ),
          trouble: this.#trouble.report(this.leaks.counts()),
        }),
      },
    );
  }

  #watchUnhandled(): () => void {
    const { schema, engine, enginePool, mode } = this.#deps;
    return watchUnhandled({
      ...{ ...this.#deps, membership: this.#membership },
      used: (queues) => usedOf(engine, schema, queues),
      find: ({ name: queue, ordering }, graceMs) =>
        // Dead rows may lie at the front of the queue.
        transactionWith(enginePool, mode, `; SET LOCAL statement_timeout = '1s'`, (db) =>
          findUnhandled(db, { schema, queue }, { keyed: ordering !== 'none', graceMs }),
        ),
    });
  }

  #makeSchedules(listening: () => boolean): ScheduleTicker {
    const { schema, engine } = this.#deps;
    return newScheduleTicker({
      ...{ ...this.#deps, membership: this.#membership, listening },
      read: (of, limit) => readDue(engine, { schema, queue: 'inbox' }, of, limit),
      behind: (queue) => keepBacklog(engine, { schema, queue }),
      write: (queue, ticks) => writeTicks(engine, { schema, queue }, ticks),
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
      fleetChanged: this.#membership.refresh,
      schedulesChanged: (at) => this.#schedules.hint(at),
    });
  }

  #makeQueue(queue: string): QueueWorker {
    const { schema, emit } = this.#deps;
    const shared = { ...this.#deps, ...this.#own, names: { schema, queue } };
    return new QueueWorker(queue, {
      ...{ ...this.#deps, keeper: this.keeper, quarantine: this.#quarantine },
      wakeups: this.wakeups,
      settler: newSettler({
        ...{ ...shared, abandoned: this.#abandon.signal },
        took: (statement, ms) => emit({ kind: 'statement', queue, statement, ms }),
        keptChanged: (jobs, change, error) => this.#trouble.kept(queue, jobs, change, error),
      }),
      context: { ...shared, leaks: this.leaks },
      recordEpoch: this.#membership.recordEpoch,
      recordRound: this.services.recordRound,
    });
  }
}

function ownConnections({ address, mode, log, queues }: LoopsDeps) {
  const pooled = mode.pooled === true;
  const ownPool = plainPool({ ...address, pooled, unlimited: true }, OWN_CONNECTIONS, log);
  const gate = new LockGate(OWN_CONNECTIONS, queues.length);
  const plain = gate.executor(plainExecutor(ownPool, mode));
  return { ownPool, gate, plain, ...(pooled && { begin: BEGIN_UNLIMITED }) };
}
