/**
 * The loops of a worker, put together: keeper, housekeeping, isolation, membership, wake-ups, and a runner
 * for each queue. Here is what one of them has to tell another: a changed fleet becomes new shares for
 * the runners and a new published ring, a death becomes a look around, a death of our own a new life.
 */
import type pg from 'pg';
import { anyOrdered } from '../claim/any-ordered.js';
import { type FleetView, fleetView, lockKeyOf, queueSettings } from '../fleet/registry.js';
import { publishedOwners, type Share, sharesOf } from '../fleet/shares.js';
import type { OwnersOfTypes } from '../fleet/wake.js';
import { BUCKETS } from '../job/key.js';
import type { Logger } from '../postgres/log.js';
import type { ConnectionOptions } from '../postgres/pool.js';
import { plainPool } from '../postgres/pool.js';
import {
  type EngineMode,
  type Executor,
  engineExecutor,
  plainExecutor,
} from '../postgres/queryable.js';
import type { Tracing } from '../tracing/tracing.js';
import type { WorkerEvent, WorkerStats } from './events.js';
import { HousekeepingLoop } from './housekeeping-loop.js';
import { Isolation } from './isolation.js';
import { Keeper } from './keeper.js';
import { Membership } from './membership.js';
import type { Settings } from './options.js';
import { QueueRunner } from './queue-runner.js';
import type { Route } from './run.js';
import { Settler } from './settler.js';
import { Wakeups } from './wakeups.js';

/** How long the start waits for the keeper's thread. */
const WATCHED_MS = 3_000;
const ASK_AGAIN_MS = 1_000;
/** How often the fleet is read although its epoch has not moved: each worker so often, times its members. */
const READ_PER_MEMBER_MS = 10_000;
const READ_RARELY_MS = 600_000;
const EVERY_BUCKET = Array.from({ length: BUCKETS }, (_, bucket) => bucket);

export interface LoopsGround {
  readonly connection: ConnectionOptions;
  /** A way past a pooler, for the sessions that listen and hold locks. */
  readonly listenUrl: string | null;
  /** The caller's pool, for handlers' transactions. */
  readonly pool: pg.Pool;
  readonly enginePool: pg.Pool;
  readonly mode: EngineMode;
  readonly schema: string;
  readonly queues: readonly string[];
  readonly settings: Settings;
  readonly routes: ReadonlyMap<string, Route>;
  readonly metadata: object;
  readonly maxPayloadBytes: number;
  readonly tracing: Tracing | null;
  readonly log: Logger;
  readonly stats: WorkerStats;
  readonly workerId: () => string;
  /** The registry has declared this worker dead. */
  readonly dead: (workerId: string) => void;
  /** The registry calls this worker draining; it may be draining already. */
  readonly drainAsked: () => void;
  readonly emit: (event: WorkerEvent) => void;
  readonly heard: () => boolean;
  readonly trouble: (what: string, error: unknown) => void;
}

export class Loops {
  readonly keeper: Keeper;
  readonly housekeeping: HousekeepingLoop;
  readonly isolation: Isolation;
  readonly membership: Membership;
  readonly wakeups: Wakeups;
  readonly runners: readonly QueueRunner[];
  /** Ordinary connections for what the worker itself reads and writes beside the queue table. */
  readonly house: pg.Pool;
  /** Aborted when the worker gives up waiting for the database at the very end. */
  readonly abandon = new AbortController();
  readonly #ground: LoopsGround;
  readonly #engine: Executor;
  /** Queues that are read as a whole by everybody, and queues that have ordered jobs. */
  readonly #competing = new Set<string>();
  readonly #ordered = new Set<string>();
  #dead: readonly string[] = [];
  /** By queue, whom producers have to wake. */
  readonly #owners = new Map<string, OwnersOfTypes[]>();
  #askedAt = Number.NEGATIVE_INFINITY;
  /** What the shares were last made from. */
  #picture = '';
  #members = 1;

  constructor(ground: LoopsGround) {
    this.#ground = ground;
    this.#engine = engineExecutor(ground.enginePool, ground.mode);
    this.house = plainPool(ground.connection, 4, ground.log);
    this.keeper = this.#makeKeeper();
    this.housekeeping = this.#makeHousekeeping();
    this.isolation = new Isolation({
      handBack: () => this.runners.forEach((runner) => void runner.handBack()),
      resume: () => this.runners.forEach((runner) => void runner.pump()),
    });
    this.membership = new Membership({
      read: () => this.#readFleet(),
      use: (view) => this.#useFleet(view),
      everyMs: () => this.#readAgainMs(),
      trouble: ground.trouble,
    });
    this.wakeups = this.#makeWakeups();
    this.runners = ground.queues.map((queue) => this.#makeRunner(queue));
  }

  /** Before the first handler: it may block this thread, and then the other must be at work. */
  async prepare(): Promise<void> {
    this.wakeups.start();
    await this.keeper.watched(WATCHED_MS);
  }

  async start(): Promise<void> {
    await this.membership.start();
    this.housekeeping.start();
  }

  /** The fleet's jobs of workers that died lately are there for everybody. */
  learnDead(ids: readonly string[]): void {
    const news = ids.some((id) => !this.#dead.includes(id));
    this.#dead = ids;
    if (news) for (const runner of this.runners) runner.hint(null);
  }

  /** Under a new id from now on. */
  identify(workerId: string): void {
    this.keeper.identify(workerId);
    this.wakeups.identify(workerId);
    void this.membership.refresh();
  }

  /**
   * The epoch says when members or assignments have changed, a notification when a job came that is not
   * looked for. Who is not notified has to look for ordered jobs.
   */
  #readAgainMs(): number {
    const soonMs = 2 * this.#ground.settings.heartbeatMs;
    if (!this.wakeups.listening()) return soonMs;
    return Math.max(soonMs, Math.min(this.#members * READ_PER_MEMBER_MS, READ_RARELY_MS));
  }

  async #readFleet(): Promise<FleetView> {
    const { schema, queues } = this.#ground;
    const db = this.#engine;
    const names = { schema, queue: queues[0] as string };
    for (const { name, assignment, ordering } of await queueSettings(db, names)) {
      if (!queues.includes(name)) continue;
      toggle(this.#competing, name, assignment === 'competing');
      const told = ordering !== 'none' || this.#handlesOrdered(name);
      // Never taken back: a producer that asks for order job by job will do so again.
      if (told || this.#ordered.has(name) || (await anyOrdered(db, { schema, queue: name }))) {
        this.#ordered.add(name);
      }
    }
    return fleetView(db, names);
  }

  #handlesOrdered(queue: string): boolean {
    const jobs = [...this.#ground.routes.values()].map(({ job }) => job);
    return jobs.some((job) => job.queue === queue && (job.ordering ?? 'none') !== 'none');
  }

  #useFleet(view: FleetView): void {
    const me = this.#ground.workerId();
    const picture = JSON.stringify([me, view.members, [...this.#competing], [...this.#ordered]]);
    if (picture !== this.#picture) for (const runner of this.runners) this.#share(runner, view);
    this.#picture = picture;
    this.#members = view.members.length;
    // Also when nothing changed: an earlier try may have failed.
    for (const [queue, groups] of this.#owners) this.wakeups.publish(queue, view.epoch, groups);
    this.learnDead(view.dead);
  }

  /** What this worker reads of a queue, and whom producers have to wake. */
  #share(runner: QueueRunner, view: FleetView): void {
    const { queue } = runner;
    const members = view.members.flatMap(({ id, handles }) => {
      const types = handles[queue];
      return types ? [{ id, handles: types }] : [];
    });
    const me = members.find(({ id }) => id === this.#ground.workerId());
    const whole = this.#competing.has(queue) && me;
    const shares = whole ? [wholeQueue(whole.handles)] : me ? sharesOf(me.id, members) : [];
    runner.assign({ shares, ordered: this.#ordered.has(queue), alone: !whole });
    const workerId = this.#ground.workerId();
    this.#ground.emit({ kind: 'ring', workerId, queue, owned: runner.buckets });
    const groups = publishedOwners(members).map(({ types, owners }) => ({
      types,
      owners: owners.map(lockKeyOf),
    }));
    this.#owners.set(queue, groups);
  }

  /** An ordered job in a queue that has shown none yet, perhaps; asked for at most once a second. */
  #hintMissed(queue: string): void {
    const now = performance.now();
    if (this.#ordered.has(queue) || now - this.#askedAt < ASK_AGAIN_MS) return;
    this.#askedAt = now;
    void this.membership.refresh();
  }

  #makeKeeper(): Keeper {
    const { connection, settings, schema, queues, listenUrl, mode, metadata } = this.#ground;
    return new Keeper(
      {
        connectionString: connection.connectionString,
        pooled: mode.pooled === true,
        directUrl: listenUrl,
        liveness: settings.liveness,
        schema,
        queues,
        workerId: this.#ground.workerId(),
        metadata,
        leaseMs: settings.leaseMs,
        renewMs: settings.renewMs,
        heartbeatMs: settings.heartbeatMs,
        stallMs: settings.stallMs,
        handleSignals: settings.handleSignals,
        graceMs: settings.graceMs,
        prepare: mode.prepare,
      },
      {
        lost: (queue, jobs) => this.runners.find((one) => one.queue === queue)?.lose(jobs),
        dead: (id) => this.#ground.dead(id),
        beat: (workerId) => this.#ground.emit({ kind: 'heartbeat', workerId }),
        gone: (ids) => {
          this.learnDead([...ids, ...this.#dead]);
          void this.membership.refresh();
        },
        epoch: (epoch) => this.membership.saw(epoch),
        drainAsked: this.#ground.drainAsked,
        trouble: this.#ground.trouble,
        held: () => this.runners.flatMap((runner) => [...runner.held()]),
        load: () => ({
          running: this.runners.reduce((sum, runner) => sum + runner.running, 0),
          held: this.runners.reduce((sum, runner) => sum + runner.size, 0),
        }),
      },
    );
  }

  #makeHousekeeping(): HousekeepingLoop {
    const { enginePool, mode, schema, queues, settings, workerId, emit, trouble } = this.#ground;
    return new HousekeepingLoop({
      enginePool,
      plainPool: this.house,
      mode,
      schema,
      queues,
      intervalMs: settings.housekeepingMs,
      members: () => this.#members,
      ttlMs: settings.ttlMs,
      workerId,
      found: (ids) => this.learnDead([...ids, ...this.#dead]),
      emit,
      trouble,
    });
  }

  #makeWakeups(): Wakeups {
    const { connection, listenUrl, schema, queues, settings, workerId } = this.#ground;
    return new Wakeups({
      connectionString: listenUrl ?? connection.connectionString,
      on: settings.notify,
      liveness: settings.liveness,
      schema,
      queues,
      workerId: workerId(),
      // Read committed, whatever the database prefers: two workers publish the same row.
      other: this.#engine,
      hint: (queue, buckets) => this.runners.find((one) => one.queue === queue)?.hint(buckets),
      risen: (queue) => this.runners.find((one) => one.queue === queue)?.risen(),
      fleetChanged: () => void this.membership.refresh(),
      trouble: this.#ground.trouble,
    });
  }

  #makeRunner(queue: string): QueueRunner {
    const { schema, pool, maxPayloadBytes, log, settings, routes, stats } = this.#ground;
    const { workerId, emit, trouble } = this.#ground;
    const names = { schema, queue };
    const engine = this.#engine;
    const plain = plainExecutor(this.house, this.#ground.mode);
    return new QueueRunner(queue, {
      settings,
      routes,
      engine,
      settler: new Settler({
        ...{ engine, plain, names, trouble },
        took: (statement, ms) => emit({ kind: 'statement', queue, statement, ms }),
        abandoned: this.abandon.signal,
      }),
      keeper: this.keeper,
      isolation: this.isolation,
      wakeups: this.wakeups,
      context: {
        ...{ names, pool, house: this.house, plain, engine, log, maxPayloadBytes },
        ...{ tracing: this.#ground.tracing, emit },
      },
      stats,
      workerId,
      deadWorkers: () => this.#dead,
      sawEpoch: (epoch) => this.membership.saw(epoch),
      hintMissed: (name) => this.#hintMissed(name),
      sawHousekept: (name, agoMs) => this.housekeeping.saw(name, agoMs),
      emit,
      heard: this.#ground.heard,
      trouble,
    });
  }
}

function toggle(set: Set<string>, name: string, on: boolean): void {
  if (on) set.add(name);
  else set.delete(name);
}

function wholeQueue(versions: Readonly<Record<string, number>>): Share {
  return { versions, above: {}, buckets: EVERY_BUCKET };
}
