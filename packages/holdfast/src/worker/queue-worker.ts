/**
 * One queue in one worker: claimed rows become jobs in flight and runs of handlers, and what leaves tells the claim loop
 * that there is room, that a key is free, or that a job comes back later.
 */
import type { Versions } from '../claim/take.js';
import { HoldfastError } from '../job/errors/errors.js';
import { isolate } from '../lease/marks.js';
import { LAST_MS } from '../postgres/connect/backoff.js';
import { type Hints, newClaimLoop } from './claim/claim-loop.js';
import type { ClaimBatch } from './claim/claim-sender.js';
import { PrefetchPolicy } from './claim/prefetch.js';
import type { Settings } from './options.js';
import type { QueueDeps } from './queue-deps.js';
import { newQueueLoad } from './queue-load.js';
import type { Route } from './run/handler-context.js';
import { LeasedJob } from './run/leased-job.js';
import { Runs, runsOf } from './run/runs.js';
import { newInFlightJobs } from './settle/in-flight.js';
import { Wait } from './time.js';

export interface QueueWorkerDeps extends QueueDeps {
  readonly wakeups: Hints;
  readonly recordEpoch: (epoch: number) => void;
  readonly recordRound: (queue: string, agoMs: number | null) => void;
}

/** Jobs that run for as long as their worker leave the others their handlers. */
function roomForResidents(settings: Settings, routes: readonly Route[]): Settings {
  const residents = routes.reduce((sum, { residents = 0 }) => sum + residents, 0);
  return residents === 0 ? settings : { ...settings, concurrency: residents, prefetch: 0 };
}

export type QueueWorker = ReturnType<typeof newQueueWorker>;

export function newQueueWorker(queue: string, given: QueueWorkerDeps) {
  const routes = [...given.routes.values()].filter(({ job }) => job.queue === queue);
  const deps = { ...given, settings: roomForResidents(given.settings, routes) };
  const { settings, quarantine, settler, time, workerId } = deps;
  const { concurrency, batchSize, leaseMs, renewMs } = settings;
  const prefetch = new PrefetchPolicy(concurrency, settings.prefetch);
  /** Handled types with the newest version of each; of a workflow, those that it has bodies for. */
  const versions: Versions = Object.fromEntries(
    routes.map(({ job, workflow }) => [
      job.type,
      workflow ? [...workflow.bodies.keys()] : job.version,
    ]),
  );
  /** How many jobs one handler takes, where all types of the queue are handled in batches; else 1. */
  const perHandler = Math.min(...routes.map(({ many }) => many?.max ?? 1));
  const waits = routes.every((route) => route.waits);
  /** Until the worker is watched: a hint must not make it claim before its death would be noticed. */
  let onHold = true;
  let stopping = false;
  let pumping = false;
  const emptied = new Wait();
  const inFlight = newInFlightJobs({
    ...{ ...deps, queue },
    left(held) {
      claims.left(held);
      checkEmpty();
      pump();
    },
    later: (held, delayMs) => claims.dueIn(delayMs, [held.row.partitionBucket]),
  });
  const runs = new Runs({ ...deps, mayStart, prefetch, inFlight, changed: pump });
  const claims = newClaimLoop({
    ...deps,
    ...{ queue, names: deps.context.names, versions, room, receive },
    // Without a living keeper nobody would renew what is claimed.
    mayClaim: () => !stopping && !onHold && deps.keeper.living && mayStart(),
    free: () => freeHandlers() > 0,
    run: () => Math.max(waits ? prefetch.runOfWaits : prefetch.run, perHandler),
    suspectsAt: () => quarantine.readyAt,
    ended: () => checkEmpty(),
  });

  function pump(): void {
    if (pumping) return;
    // Handlers that end at once keep the process busy until all that wait have run. So that the database is
    // not idle meanwhile, the next jobs are asked for before; a statement is sent in the next tick.
    pumping = runs.waiting > concurrency;
    if (pumping)
      process.nextTick(() => {
        pumping = false;
        runs.start();
        claims.pump();
      });
    else runs.start();
    claims.pump();
  }

  /** Nothing is claimed or started under an id that may be dead. */
  const isAlive = () => deps.standing(workerId()) === 'alive';

  function mayStart(): boolean {
    // As many jobs as run at once have ended and cannot be settled: more would only repeat their effects later.
    const { kept } = settler;
    if (kept > 0 && kept >= concurrency * perHandler) return false;
    return isAlive() && !quarantine.holds;
  }

  const freeHandlers = () => concurrency - runs.running - runs.waiting;

  /** For how many jobs handlers are free, beyond those that wait to be handled together; one more if no batch is full. */
  function idleNow(): number {
    const free = freeHandlers();
    if (perHandler === 1) return free;
    const idle = free * perHandler - runs.gathered;
    return free > 0 && idle <= 0 ? perHandler : idle;
  }

  /** How many jobs the handlers have, or will have. A batch that runs takes no more, also when some of it is done. */
  function takenNow(): number {
    const { unfinished, spare, running, gathered } = runs;
    if (perHandler === 1) return Math.max(unfinished, running);
    return Math.max(unfinished + spare, running * perHandler + gathered);
  }

  /** An idle handler claims; while all are busy, half of what is wanted ahead is waited for. */
  function room(): number {
    const target = concurrency * perHandler + prefetch.jobs;
    // Unsettled jobs are held too: when the database is slow to settle, claiming waits for it. Those that wait for
    // others of their type are not among them.
    if (inFlight.size - runs.gathered >= 2 * target + batchSize) return 0;
    const [taken, idle] = [takenNow(), idleNow()];
    if (idle <= 0 && taken > target / 2) return 0;
    return Math.min(batchSize, Math.max(idle, target - taken, 0));
  }

  function receive(batch: ClaimBatch): void {
    const { jobs: rows, run, number, clock, sentAt } = batch;
    if (rows.length === 0) return;
    const now = time.now();
    const facts = { queue, workerId: batch.workerId, number, sentAt, claimedAt: now, clock };
    const jobs = rows.map((row) => new LeasedJob(row, facts));
    // Suspects come without what stands behind them.
    for (const job of jobs) job.hasMore = job.row.more ?? run === undefined;
    // The answer may have lain in the socket while the loop was blocked, until the leases were over or this
    // worker had been declared dead.
    if (now - sentAt >= leaseMs || onHold || batch.workerId !== workerId()) {
      inFlight.missed(jobs);
      claims.missed(jobs);
      return;
    }
    inFlight.take(jobs);
    for (const { row } of jobs) prefetch.recordPayload(row.payload.length);
    // Too little is left of these leases to be renewed in time: they go back, and are claimed anew.
    if (stopping || !isAlive() || now - sentAt >= leaseMs - renewMs) {
      for (const job of jobs) inFlight.release(job);
      return;
    }
    // They will be added, or released.
    runs.unfinished += jobs.length;
    const [first] = jobs;
    if (batch.alone && first) {
      runAlone(first);
      return;
    }
    // A job that holds a permit starts before others that wait: until it ends, nobody else has the permit.
    const isFirst = ([job]: LeasedJob[]) => job !== undefined && claims.isLimited(job.row.type);
    const all = runsOf(batch, jobs);
    runs.add(
      all.filter((one) => !isFirst(one)),
      false,
    );
    runs.add(all.filter(isFirst), true);
    runs.start();
  }

  function runAlone(held: LeasedJob): void {
    const { engine, context, reportError } = deps;
    void quarantine.runAlone({
      held,
      unmark: () =>
        isolate(engine, context.names, held.workerId, held, false).then(
          () => undefined,
          (error) => reportError('taking back the mark of a quarantined job', error),
        ),
      // Until its end is written nothing else may start: the row still says that it runs alone.
      run: () => runs.work([held]).then(() => held.left()),
      release: () => runs.release([held]),
    });
  }

  const isEmpty = () => inFlight.size === 0 && !claims.claiming;

  function checkEmpty(): void {
    if (isEmpty()) emptied.end();
  }

  const emptyWithin = async (ms: number): Promise<boolean> => isEmpty() || emptied.atMost(ms, time);

  const load = newQueueLoad({
    ...{ routes, handlers: concurrency, time },
    running: () => runs.running,
    held: () => inFlight.held,
  });
  return {
    ...{ queue, inFlight, runs, claims, versions, pump, load },
    /** No claims while this worker has no registration to claim under. */
    hold(hold: boolean): void {
      onHold = hold;
      if (!hold) claims.restart();
    },
    /** The keeper could not renew these. */
    lose(jobs: readonly { id: string; generation: number }[]): void {
      for (const held of inFlight.find(jobs)) inFlight.lose(held);
      runs.dropLost();
    },
    /** This registration is dead, and with it everything that is held and not being settled. */
    loseAll(id: string): void {
      for (const held of inFlight.values())
        if (held.workerId === id && !held.settling) inFlight.lose(held);
      runs.dropLost();
    },
    /** No new claims; waits for running handlers, then aborts and releases what is left. True: all gone. */
    async drain(graceMs: number): Promise<boolean> {
      stopping = true;
      claims.stop();
      settler.flush();
      runs.stop();
      for (const held of inFlight.values()) if (!held.started) inFlight.release(held);
      const residents = new HoldfastError(
        'STOPPED',
        'The worker is stopping; a job that runs for as long as its worker goes to another one.',
      );
      for (const held of inFlight.values())
        if (deps.routes.get(held.row.type)?.residents) held.abort(residents);
      if (await emptyWithin(graceMs)) return true;
      const reason = new HoldfastError(
        'STOPPED',
        'The worker is stopping and its grace period is over; the job was released.',
      );
      for (const held of inFlight.values()) {
        if (held.lost) continue;
        held.abort(reason);
        held.settling = false;
        inFlight.release(held);
        held.lost = true;
      }
      return emptyWithin(6 * LAST_MS);
    },
  };
}
