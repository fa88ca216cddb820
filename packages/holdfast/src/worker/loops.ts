/**
 * The loops of a worker, and what they tell each other: a changed fleet means new shares of the ring, a death a
 * recovery, our own death a new registration.
 */
import { setMaxListeners } from 'node:events';
import type pg from 'pg';
import { usedOf } from '../claim/due.js';
import { KnownQueues } from '../fleet/known-queues.js';
import { knownTypes, nearestType } from '../inspect/fleet/known-types.js';
import { findUnhandled } from '../inspect/fleet/unhandled.js';
import { passwordFunction, sendable } from '../postgres/connect/address.js';
import { LAST_MS } from '../postgres/connect/backoff.js';
import { newLockGate } from '../postgres/connect/lock-gate.js';
import { closePool, plainPool } from '../postgres/connect/pool.js';
import { BEGIN_UNLIMITED } from '../postgres/connect/pooled.js';
import { plainExecutor } from '../postgres/queryable.js';
import { keepBacklog, readDue, writeTicks } from '../schedule/tick.js';
import { wakeRuns } from '../workflow/rows/signal.js';
import { newIdlePoll } from './claim/idle-poll.js';
import { newWakeups, type Wakeups } from './claim/wakeups.js';
import { OWN_CONNECTIONS, type SharedDeps, type WorkerDeps } from './deps.js';
import { type Keeper, newKeeper } from './lease/keeper.js';
import type { QueueLoad } from './lease/protocol.js';
import { newQueueWorker, type QueueWorker } from './queue-worker.js';
import type { ContextDeps } from './run/context-deps.js';
import { newLeaks } from './run/leaks.js';
import { newQuarantine } from './run/quarantine.js';
import { maintenanceServices } from './services/maintenance.js';
import { type Membership, newMembership } from './services/membership.js';
import { newRecovery } from './services/recovery.js';
import type { Registration } from './services/registration.js';
import { newScheduleTicker, type ScheduleTicker } from './services/schedules.js';
import { type AddedService, newServiceLoop, transactionWith } from './services/service-loop.js';
import { newSignalWaker } from './services/signals.js';
import { watchUnhandled } from './services/unhandled.js';
import { newSettler } from './settle/settler.js';
import { newTrouble } from './trouble.js';
import { newRunsIo } from './workflow/runs-io.js';

interface LoopsDeps extends Omit<SharedDeps, 'workerId' | 'standing'>, WorkerDeps {
  readonly registration: Registration;
  readonly enginePool: pg.Pool;
  readonly channels: ReadonlyMap<string, string>;
  readonly metadata: object;
  /** What shapes do now and then. */
  readonly added: readonly AddedService[];
  readonly registeredAt: number;
  /** The registry calls this worker draining; or so many handlers run on without their jobs that it should be. */
  readonly drainAsked: (leaked?: number) => void;
  /** The listener may have a way of its own: if that is closed, the database is not away. */
  readonly reportListenerError: (what: string, error: unknown) => void;
}

export type Loops = ReturnType<typeof newLoops>;

export function newLoops(given: LoopsDeps) {
  const { address, direct, emit, engine, enginePool, mode, registration, schema, settings } = given;
  const trouble = newTrouble(given);
  const deps: LoopsDeps & SharedDeps = {
    ...given,
    reportError: (what, error) => {
      trouble.failed(what, error);
      given.reportError(what, error);
    },
    workerId: () => registration.id,
    standing: (id) => {
      if (!registration.isOurs(id)) return 'dead';
      return keeper.aliveForMs() > 0 ? 'alive' : 'unknown';
    },
  };
  /** Aborted when the worker gives up waiting for the database at the very end. */
  const abandon = new AbortController();
  // While the database is away, every job that is being settled listens to it.
  setMaxListeners(0, abandon.signal);
  /** Ordinary connections for what the worker itself reads and writes beside the queue table, and their gate. */
  const own = ownConnections(deps);
  const knownQueues = new KnownQueues();
  const keeper = makeKeeper();
  const recovery = newRecovery(deps);
  const leaks = newLeaks(deps);
  const quarantine = newQuarantine({
    ...{ time: deps.time, leaks, resume: pump },
    releaseWaiting: () => {
      for (const { runs } of queues) runs.releaseWaiting();
    },
  });
  const membership: Membership = newMembership({
    ...{ ...deps, queueWorkers: () => queues, recover: recovery.recover },
    changed: () => schedules.membersChanged(),
  });
  const services = newServiceLoop({
    ...deps,
    services: maintenanceServices(settings.maintenanceMs, recovery, membership.recordDead),
  });
  const wakeups: Wakeups = newWakeups({
    ...{ ...deps, reportError: deps.reportListenerError, address: direct ?? address },
    ...{ on: settings.notify, livenessLock: settings.livenessLock },
    workerId: registration.id,
    other: engine,
    hint: (queue, hint) => queueOf(queue)?.claims.hint(hint),
    listening: (queue) => queueOf(queue)?.claims.listening(),
    fleetChanged: membership.refresh,
    schedulesChanged: (at) => schedules.hint(at),
    signalled: (queue) => signals.hint(queue),
  });
  const schedules: ScheduleTicker = newScheduleTicker({
    ...{ ...deps, membership, listening: wakeups.listening },
    read: (of, limit) => readDue(engine, { schema, queue: 'inbox' }, of, limit),
    behind: (queue) => keepBacklog(engine, { schema, queue }),
    write: (queue, ticks) => writeTicks(engine, { schema, queue }, ticks),
  });
  const signals = newSignalWaker({
    ...{ ...deps, membership, listening: wakeups.listening },
    queues: deps.queues.filter(hasRuns),
    wake: (queue, most) => wakeRuns(engine, { schema, queue }, most),
  });
  const queues: readonly QueueWorker[] = deps.queues.map(makeQueue);
  const idlePoll = newIdlePoll({
    ...{ ...deps, queues: () => queues, listening: wakeups.listening },
    ...{ recordRound: services.recordRound, servers: membership.servers },
  });
  let stopUnhandled = () => {};
  let draining = false;

  const queueOf = (name: string) => queues.find(({ queue }) => queue === name);
  const running = () => queues.reduce((sum, { runs }) => sum + runs.running, 0);

  function pump(): void {
    for (const queue of queues) queue.pump();
  }

  function makeKeeper(): Keeper {
    const { livenessLock, leaseMs, renewMs, heartbeatMs, ttlMs, stallMs } = settings;
    const password = passwordFunction(address);
    return newKeeper(
      {
        address: sendable(address),
        asksPasswords: password !== null,
        direct: direct && sendable(direct),
        pooled: mode.pooled === true,
        prepare: mode.prepare,
        workerId: registration.id,
        ...{ schema, queues: deps.queues, metadata: deps.metadata },
        ...{ registeredAt: deps.registeredAt, livenessLock },
        ...{ leaseMs, renewMs, heartbeatMs, ttlMs, stallMs },
      },
      {
        ready: pump,
        lost: (queue, jobs) => queueOf(queue)?.lose(jobs),
        dead: (id) => void reregister(id),
        beat: (workerId) => {
          emit({ kind: 'heartbeat', workerId });
          pump();
        },
        gone: (ids) => membership.recordDead(ids),
        epoch: (epoch) => membership.recordEpoch(epoch),
        drainAsked: () => deps.drainAsked(),
        error: deps.reportError,
        ...(password && { password }),
        load: () => {
          const loads = queues.map((one) => one.load());
          return {
            running: running(),
            held: loads.reduce((sum, { held }) => sum + held, 0),
            attempts: Object.fromEntries(queues.map((one) => [one.queue, one.inFlight.attempts])),
            queues: Object.fromEntries(
              queues.map(({ queue }, n) => [queue, loads[n] as QueueLoad]),
            ),
            trouble: trouble.report(leaks.counts()),
          };
        },
      },
    );
  }

  function runsOf(shared: Pick<ContextDeps, 'engine' | 'names'>) {
    return newRunsIo({ ...deps, ...shared, abandoned: abandon.signal });
  }
  function hasRuns(queue: string): boolean {
    return [...deps.routes.values()].some(({ job, workflow }) => workflow && job.queue === queue);
  }

  function makeQueue(queue: string): QueueWorker {
    const shared = { ...deps, ...own, names: { schema, queue } };
    return newQueueWorker(queue, {
      ...{ ...deps, keeper, quarantine, wakeups },
      settler: newSettler({
        ...{ ...shared, abandoned: abandon.signal },
        took: (statement, ms) => emit({ kind: 'statement', queue, statement, ms }),
        keptChanged: (jobs, change, error) => trouble.kept(queue, jobs, change, error),
      }),
      context: { ...shared, leaks, knownQueues, ...(hasRuns(queue) && { runsIo: runsOf(shared) }) },
      recordEpoch: membership.recordEpoch,
      recordRound: services.recordRound,
    });
  }

  /** Declared dead while away: nothing that was held counts any more. It registers again under a new id. */
  async function reregister(was: string): Promise<void> {
    // The thread may say it twice, if it was started anew meanwhile.
    if (!registration.isOurs(was)) return;
    const entered = registration.enterAgain();
    for (const queue of queues) {
      queue.hold(true);
      queue.loseAll(was);
    }
    if (!(await entered)) return;
    const { id } = registration;
    keeper.identify(id);
    wakeups.identify(id);
    void membership.refresh();
    // What a claim brought meanwhile was claimed under the dead id.
    for (const queue of queues) queue.loseAll(was);
    await recovery.recover(deps.queues);
    for (const queue of queues) queue.hold(false);
    emit({ kind: 'reregistered', workerId: id, was });
  }

  return {
    keeper,
    services,
    leaks,
    get running() {
      return running();
    },
    /** Before the first handler, which may block this thread: then the keeper must be at work. Rejects if it cannot run. */
    async prepare(): Promise<void> {
      await keeper.start();
      wakeups.start();
      await keeper.watched();
    },
    async start(): Promise<void> {
      await membership.start();
      // A claim takes over leases that ran out and holds each against its job; here it is seen who vanished together.
      await recovery.recover(deps.queues);
      // Whoever is stopped while it starts must start nothing that nobody stops again.
      if (draining) return;
      for (const queue of queues) queue.hold(false);
      services.start();
      stopUnhandled = watchUnhandled({
        ...{ ...deps, membership, used: (of) => usedOf(engine, schema, of) },
        find: ({ name: queue, ordering }, graceMs) =>
          // Dead rows may lie at the front of the queue.
          transactionWith(enginePool, mode, `; SET LOCAL statement_timeout = '1s'`, (db) =>
            findUnhandled(db, { schema, queue }, { keyed: ordering !== 'none', graceMs }),
          ),
        meant: ({ name: queue }, types) =>
          transactionWith(enginePool, mode, `; SET LOCAL statement_timeout = '1s'`, async (db) => {
            const known = await knownTypes(db, { schema, queue });
            return types.map((type) => nearestType(type, known));
          }),
      });
      schedules.start();
      signals.start();
      idlePoll.start();
    },
    /** Ends what the worker does beside its jobs, then its jobs: running handlers get the grace period. */
    async drain(graceMs: number): Promise<void> {
      draining = true;
      stopUnhandled();
      for (const part of [services, recovery, schedules, signals, idlePoll, membership, quarantine])
        part.stop();
      const said = registration.announceDrain();
      const gone = await Promise.all(queues.map((queue) => queue.drain(graceMs)));
      abandon.abort();
      await said();
      await registration.leave(gone.every(Boolean));
      await wakeups.stop();
      leaks.stop();
    },
    async close(): Promise<void> {
      await Promise.all([keeper.stop(), closePool(own.ownPool, LAST_MS)]);
    },
  };
}

function ownConnections({ address, mode, log, queues }: LoopsDeps) {
  const pooled = mode.pooled === true;
  const ownPool = plainPool({ ...address, pooled, unlimited: true }, OWN_CONNECTIONS, log);
  const gate = newLockGate(OWN_CONNECTIONS, queues.length);
  const plain = gate.executor(plainExecutor(ownPool, mode));
  return { ownPool, gate, plain, ...(pooled && { begin: BEGIN_UNLIMITED }) };
}
