/**
 * The loops of a worker, put together: keeper, services, quarantine, membership, wake-ups, and one worker for
 * each queue. Here is what one of them has to tell another: a changed fleet becomes new shares of the ring, a
 * death becomes a recovery, a death of our own a new registration.
 */
import { setMaxListeners } from 'node:events';
import type pg from 'pg';
import { type LimitedTypes, limitedTypes } from '../fleet/limited.js';
import { type FleetView, fleetView, type QueueSettings, queueSettings } from '../fleet/registry.js';
import { ringOwners } from '../fleet/ring.js';
import { channelOf } from '../fleet/wake.js';
import { findUnhandled } from '../inspect/unhandled.js';
import { passwordFunction, sendable } from '../postgres/address.js';
import { plainPool, withTransaction } from '../postgres/pool.js';
import { BEGIN_POOLED, BEGIN_UNLIMITED } from '../postgres/pooled.js';
import {
  type EngineMode,
  type Executor,
  engineExecutor,
  plainExecutor,
} from '../postgres/queryable.js';
import { readDue, writeTicks } from '../schedule/tick.js';
import { Wakeups } from './claim/wakeups.js';
import type { WorkerEvent, WorkerStats } from './events.js';
import { Keeper } from './lease/keeper.js';
import type { Settings } from './options.js';
import { QueueWorker } from './queue-worker.js';
import type { Route } from './run/attempt.js';
import { Quarantine } from './run/quarantine.js';
import { maintenanceServices, recoverAll } from './services/maintenance.js';
import { Membership } from './services/membership.js';
import { ScheduleTicker } from './services/schedules.js';
import { ServiceLoop } from './services/service-loop.js';
import { UnhandledWatch } from './services/unhandled.js';
import type { Standing } from './settle/batcher.js';
import { Settler } from './settle/settler.js';
import type { Time } from './time.js';
import type { WorkerDeps } from './worker.js';

/** How long the start waits for the liveness lock. */
const WATCHED_MS = 3_000;
/** A look for what nobody handles is given up after so long: dead rows may lie at the front of the queue. */
const UNHANDLED_MS = 1_000;

export interface LoopsDeps
  extends Omit<WorkerDeps, 'listeners' | 'prepare' | 'pooler' | 'besidePool'> {
  readonly enginePool: pg.Pool;
  readonly mode: EngineMode;
  readonly queues: readonly string[];
  /** By channel, the queues. */
  readonly channels: ReadonlyMap<string, string>;
  readonly settings: Settings;
  readonly routes: ReadonlyMap<string, Route>;
  readonly metadata: object;
  readonly time: Time;
  readonly stats: WorkerStats;
  readonly workerId: () => string;
  /** Whether the registry calls a worker of this id alive. */
  readonly standing: (workerId: string) => Standing;
  /** When the registration was sent, by `monotonicMs`. */
  readonly registeredAt: number;
  /** The registry has declared this worker dead. */
  readonly dead: (workerId: string) => void;
  /** The registry calls this worker draining; it may be draining already. */
  readonly drainAsked: () => void;
  readonly emit: (event: WorkerEvent) => void;
  readonly hasListeners: () => boolean;
  readonly reportError: (what: string, error: unknown) => void;
}

export class Loops {
  readonly keeper: Keeper;
  readonly services: ServiceLoop;
  readonly quarantine: Quarantine;
  readonly membership: Membership;
  readonly wakeups: Wakeups;
  readonly unhandled: UnhandledWatch;
  readonly schedules: ScheduleTicker;
  readonly queues: readonly QueueWorker[];
  /** Ordinary connections for what the worker itself reads and writes beside the queue table. */
  readonly ownPool: pg.Pool;
  /** Aborted when the worker gives up waiting for the database at the very end. */
  readonly abandon = new AbortController();
  readonly #deps: LoopsDeps;
  readonly #engine: Executor;
  #settings: readonly QueueSettings[] = [];
  #limited: ReadonlyMap<string, LimitedTypes> = new Map();
  #dead: ReadonlySet<string> = new Set();
  /** What the shares were last made from. */
  #picture = '';
  #members = 1;
  /** The member whose id comes first looks for all. */
  #first: string | null = null;
  /** Whether this worker comes first for one of its queues, and so writes the ticks of schedules. */
  #leads = false;

  constructor(deps: LoopsDeps) {
    // While the database is away, every job that is being settled listens to it.
    setMaxListeners(0, this.abandon.signal);
    this.#deps = deps;
    this.#engine = engineExecutor(deps.enginePool, deps.mode);
    const own = { ...deps.address, pooled: deps.mode.pooled === true, unlimited: true };
    this.ownPool = plainPool(own, 4, deps.log);
    this.keeper = this.#makeKeeper();
    this.services = this.#makeServices();
    this.quarantine = new Quarantine(
      {
        releaseWaiting: () => {
          for (const queue of this.queues) queue.releaseWaiting();
        },
        resume: () => this.pump(),
      },
      deps.time,
    );
    this.membership = new Membership({
      read: () => this.#readFleet(),
      use: (view) => this.#useFleet(view),
      // Claims and the keeper notice a new epoch; this is for a change that they miss.
      everyMs: () => Math.max(2, this.#members) * deps.settings.heartbeatMs,
      time: deps.time,
      reportError: deps.reportError,
    });
    this.wakeups = this.#makeWakeups();
    this.unhandled = this.#makeUnhandled();
    this.schedules = this.#makeSchedules();
    this.queues = deps.queues.map((queue) => this.#makeQueue(queue));
  }

  /**
   * Before the first handler: it may block this thread, and then the other must be at work. Rejects when
   * that cannot run.
   */
  async prepare(): Promise<void> {
    await this.keeper.start();
    this.wakeups.start();
    await this.keeper.watched(WATCHED_MS);
  }

  async start(): Promise<void> {
    await this.membership.start();
    for (const queue of this.queues) queue.hold(false);
    this.services.start();
    this.unhandled.start();
    this.schedules.start();
  }

  pump(): void {
    for (const queue of this.queues) queue.pump();
  }

  /** Under a new id from now on. */
  identify(workerId: string): void {
    this.keeper.identify(workerId);
    this.wakeups.identify(workerId);
    void this.membership.refresh();
  }

  /** Workers that are dead: what the new ones among them held is recovered at once. */
  recordDead(ids: readonly string[]): void {
    const news = ids.some((id) => !this.#dead.has(id));
    this.#dead = new Set([...ids, ...this.#dead].slice(0, 200));
    if (news) void this.recover();
  }

  async recover(): Promise<void> {
    const { schema, reportError, workerId, emit } = this.#deps;
    for (const { queue } of this.queues) {
      try {
        const recovered = await recoverAll(
          this.#engine,
          { schema, queue },
          workerId(),
          this.#sayExhausted,
        );
        if (recovered > 0) emit({ kind: 'maintained', queue, recovered, pruned: 0 });
      } catch (error) {
        if (!this.abandon.signal.aborted) reportError(`recovery of ${queue}`, error);
      }
    }
  }

  readonly #sayExhausted = (queue: string, job: string) => {
    const err = 'its workers vanished while they ran it';
    this.#deps.log.error({ queue, job, err }, 'a job became a dead letter');
  };

  async #readFleet(): Promise<FleetView> {
    const names = { schema: this.#deps.schema, queue: this.#deps.queues[0] as string };
    this.#settings = await queueSettings(this.#engine, names);
    this.#limited = await limitedTypes(this.#engine, names);
    return fleetView(this.#engine, names);
  }

  #useFleet(view: FleetView): void {
    const orders = this.#settings.map(({ name, ordering, limits }) => [name, ordering, limits]);
    const picture = JSON.stringify([this.#deps.workerId(), view.members, orders]);
    for (const queue of this.queues) {
      const limited = this.#limited.get(queue.queue);
      if (limited) queue.limit(limited);
      if (picture !== this.#picture) this.#share(queue, view);
    }
    this.#picture = picture;
    this.#members = view.members.length;
    this.#first = view.members[0]?.id ?? null;
    this.#leads = this.#deps.queues.some((queue) => {
      const first = view.members.find(({ handles }) => handles[queue]);
      return first?.id === this.#deps.workerId();
    });
    this.schedules.membersChanged();
    this.recordDead(view.dead);
  }

  /** Which buckets of a queue that is read by key this worker reads first. */
  #share(queue: QueueWorker, view: FleetView): void {
    const ordering = this.#settings.find(({ name }) => name === queue.queue)?.ordering ?? 'none';
    const members = view.members.filter(({ handles }) => handles[queue.queue]);
    const owners = ordering === 'none' ? [] : ringOwners(members.map(({ id }) => id));
    const me = this.#deps.workerId();
    queue.assign(
      ordering,
      owners.flatMap((owner, bucket) => (owner === me ? [bucket] : [])),
    );
    if (ordering !== 'none')
      this.#deps.emit({ kind: 'ring', workerId: me, queue: queue.queue, owned: queue.owned });
  }

  #makeKeeper(): Keeper {
    const { address, direct, settings, schema, queues, mode, metadata } = this.#deps;
    const password = passwordFunction(address);
    return new Keeper(
      {
        address: sendable(address),
        asksPasswords: password !== null,
        pooled: mode.pooled === true,
        direct: direct && sendable(direct),
        livenessLock: settings.livenessLock,
        schema,
        queues,
        workerId: this.#deps.workerId(),
        registeredAt: this.#deps.registeredAt,
        metadata,
        leaseMs: settings.leaseMs,
        renewMs: settings.renewMs,
        heartbeatMs: settings.heartbeatMs,
        ttlMs: settings.ttlMs,
        stallMs: settings.stallMs,
        prepare: mode.prepare,
      },
      {
        ready: () => this.pump(),
        lost: (queue, jobs) => this.queues.find((one) => one.queue === queue)?.lose(jobs),
        dead: (id) => this.#deps.dead(id),
        beat: (workerId) => {
          this.#deps.emit({ kind: 'heartbeat', workerId });
          this.pump();
        },
        gone: (ids) => {
          this.recordDead(ids);
          void this.membership.refresh();
        },
        epoch: (epoch) => this.membership.recordEpoch(epoch),
        drainAsked: this.#deps.drainAsked,
        error: this.#deps.reportError,
        ...(password && { password }),
        load: () => ({
          running: this.queues.reduce((sum, one) => sum + one.running, 0),
          held: this.queues.reduce((sum, one) => sum + one.held, 0),
          failed: this.queues.map(({ failures }) => failures),
        }),
      },
    );
  }

  #makeServices(): ServiceLoop {
    const { enginePool, mode, schema, queues, settings, time, workerId, emit, reportError } =
      this.#deps;
    return new ServiceLoop({
      ...{ enginePool, mode, schema, queues, time, workerId, emit, reportError },
      services: maintenanceServices(settings.maintenanceMs, {
        dead: (ids) => {
          this.recordDead(ids);
          void this.membership.refresh();
        },
        exhausted: this.#sayExhausted,
      }),
      intervalMs: settings.maintenanceMs,
      ttlMs: settings.ttlMs,
    });
  }

  #makeUnhandled(): UnhandledWatch {
    const { schema, settings, time, log, workerId, enginePool, mode } = this.#deps;
    const begin = `${mode.pooled ? BEGIN_POOLED : 'BEGIN'}; SET LOCAL statement_timeout = ${UNHANDLED_MS}`;
    return new UnhandledWatch({
      ...{ maintenanceMs: settings.maintenanceMs, time, log },
      isFirst: () => this.#first === workerId(),
      queues: () => this.#settings,
      find: ({ name: queue, ordering }, graceMs) =>
        withTransaction(
          enginePool,
          (client) => {
            const how = { keyed: ordering !== 'none', graceMs };
            return findUnhandled(plainExecutor(client, mode), { schema, queue }, how);
          },
          begin,
        ),
    });
  }

  #makeSchedules(): ScheduleTicker {
    const { schema, queues, time, emit, reportError } = this.#deps;
    return new ScheduleTicker({
      ...{ queues, time, emit, reportError },
      read: (of, limit) => readDue(this.#engine, { schema, queue: 'inbox' }, of, limit),
      write: (queue, ticks) => writeTicks(this.#engine, { schema, queue }, ticks),
      leads: () => this.#leads,
      members: () => this.#members,
      listening: () => this.wakeups.listening(),
    });
  }

  #makeWakeups(): Wakeups {
    const { address, direct, schema, channels, settings, workerId, reportError } = this.#deps;
    const queueOf = (name: string) => this.queues.find(({ queue }) => queue === name);
    return new Wakeups({
      address: direct ?? address,
      on: settings.notify,
      livenessLock: settings.livenessLock,
      ...{ schema, channels, workerId: workerId(), other: this.#engine, reportError },
      hint: (queue, since, buckets) => queueOf(queue)?.hint(since, buckets),
      listening: (queue) => queueOf(queue)?.listening(),
      fleetChanged: () => void this.membership.refresh(),
      schedulesChanged: (at) => this.schedules.hint(at),
    });
  }

  #makeQueue(queue: string): QueueWorker {
    const { schema, pool, maxPayloadBytes, log, settings, routes, stats } = this.#deps;
    const { workerId, standing, time, emit, hasListeners, reportError, tracing, mode } = this.#deps;
    const names = { schema, queue };
    const engine = this.#engine;
    const plain = plainExecutor(this.ownPool, mode);
    return new QueueWorker(queue, {
      ...{
        settings,
        routes,
        engine,
        stats,
        workerId,
        emit,
        hasListeners,
        reportError,
        standing,
        time,
      },
      ...{ keeper: this.keeper, quarantine: this.quarantine, wakeups: this.wakeups },
      settler: new Settler({
        ...{ engine, plain, names, reportError, standing, time },
        took: (statement, ms) => emit({ kind: 'statement', queue, statement, ms }),
        abandoned: this.abandon.signal,
      }),
      context: {
        ...{
          names,
          pool,
          ownPool: this.ownPool,
          plain,
          engine,
          log,
          maxPayloadBytes,
          tracing,
          emit,
          ...(mode.pooled && { begin: BEGIN_UNLIMITED }),
        },
      },
      recordEpoch: (epoch) => this.membership.recordEpoch(epoch),
      recordRound: (name, agoMs) => this.services.recordRound(name, agoMs),
    });
  }
}

/** By channel, the queues that are served. */
export async function channelsOf(
  db: Executor,
  schema: string,
  queues: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const channels = new Map<string, string>();
  for (const queue of queues) channels.set(await channelOf(db, { schema, queue }), queue);
  return channels;
}
