/**
 * A worker without loops: it claims when it is told to, runs one job in the caller's turn and settles it. The
 * statements, the context, the outcome of an attempt and the settle are those of a real worker; timers, threads
 * and notifications are left out, so nothing happens by itself and nothing waits.
 */
import { randomBytes } from 'node:crypto';
import timers from 'node:timers';
import type { Job } from 'holdfast';
import type { ClaimedJob, Executor, Names, SettleResult } from 'holdfast/internal';
import {
  BUCKETS,
  claimKeyed,
  claimRateKeys,
  claimSuspects,
  claimTime,
  claimTurns,
  frontLines,
  type KeyStretch,
  KnownQueues,
  LeasedJob,
  type LineRequest,
  leaseLost,
  leave,
  lockKeyOf,
  markStarted,
  newRunsIo,
  newSettler,
  type Outcome,
  type Route,
  register,
  renew,
  runJob,
  settleOutcome,
  systemTime,
  type Time,
  withTransaction,
} from 'holdfast/internal';
import type { TestDeps } from './deps.js';
import { watching } from './faults/steps.js';
import { makeDue, type Place } from './rows.js';

const { setImmediate } = timers;
/** Goes on under the fake timers of a test, which would stand still. */
const realTime: Time = { ...systemTime, soon: (run) => void setImmediate(run) };

/** No handler of a test runs for so long; nobody renews here. */
const LEASE_MS = 600_000;

const ALL_KEYS: KeyStretch = { bucket: 0, afterKey: '', untilBucket: BUCKETS, untilKey: '' };

export interface AttemptEnd {
  readonly outcome: Outcome;
  readonly result: SettleResult;
}

/**
 * How an attempt ended. `retry`: it failed and runs again after `delayMs`. `lost`: somebody else owned the job when this
 * attempt ended, so nothing that it settled counts. `waiting`: a turn of a workflow ended, and the run waits. `crashed`: the
 * fault `crash` ended it.
 */
export type TestOutcome =
  | 'completed'
  | 'retry'
  | 'dead_letter'
  | 'snoozed'
  | 'waiting'
  | 'cancelled'
  | 'lost'
  | 'crashed';

/** From what the worker learnt and from where the job stands now. */
export function outcomeOf({ outcome, result }: AttemptEnd, row: Job | null): TestOutcome {
  if (result === 'lost') return 'lost';
  if (outcome.kind === 'snoozed') return 'snoozed';
  if (outcome.kind === 'suspended') return 'waiting';
  if (row?.status === 'dead_letter' || row?.status === 'cancelled') return row.status;
  // Also a job that is gone: its queue keeps no archive.
  return row?.status === 'pending' ? 'retry' : 'completed';
}

export class TestWorker {
  readonly id = `test-${process.pid}-${randomBytes(4).toString('hex')}`;
  readonly #deps: TestDeps;
  readonly #routes: ReadonlyMap<string, Route>;
  readonly #timeoutMs: number | null;
  readonly #knownQueues = new KnownQueues();
  #claims = 0;

  constructor(deps: TestDeps, routes: ReadonlyMap<string, Route>, timeoutMs: number | null = null) {
    this.#deps = deps;
    this.#routes = routes;
    this.#timeoutMs = timeoutMs;
  }

  /** Into the registry: only a worker that stands there can be declared dead. */
  register(names: Names): Promise<void> {
    const worker = { id: this.id, lockKey: lockKeyOf(this.id), handles: {}, metadata: {} };
    return register(this.#deps.engine, names, worker);
  }

  /** Out of the registry; `holding`: it vanishes with what it holds. */
  leave(names: Names, holding: boolean): Promise<void> {
    return leave(this.#deps.engine, names, this.id, !holding);
  }

  /** The next due job of a queue, as its order has it; null when there is none. */
  async claimNext(names: Names, ordering: string): Promise<LeasedJob | null> {
    const all = { line: null, stretch: ALL_KEYS, turn: ALL_KEYS };
    const [job] = await this.#claim(this.#deps.engine, names, ordering, all);
    return job ? this.#leased(names, job) : null;
  }

  /** Jobs whose workers vanished again and again come in groups. */
  async claimSuspects(names: Names): Promise<LeasedJob[]> {
    const { jobs } = await claimSuspects(this.#deps.engine, names, this.#terms(names.queue));
    return jobs.map((job) => this.#leased(names, job));
  }

  /** This job and no other; one that is delayed becomes due, and a live lease of another runs out. */
  claimJob(names: Names, id: string): Promise<LeasedJob | null> {
    return withTransaction(this.#deps.ownPool, async (tx) => {
      const place = await makeDue(tx, names, id);
      return place && this.claimPlace(this.#deps.on(tx), names, id, place);
    });
  }

  /** The same for a job that is due, in a transaction of the caller's. */
  async claimPlace(
    db: Executor,
    names: Names,
    id: string,
    place: Place,
  ): Promise<LeasedJob | null> {
    const { type, version, priority, runAt: afterAt, position } = place;
    const jobs = await this.#claim(db, names, place.ordering, {
      line: { type, version, priority, afterAt, afterPosition: position - 1, rows: 1 },
      stretch: onlyKey(place),
      turn: turnOf(place),
      maxKeys: 1,
    });
    const job = jobs.find((one) => one.id === id);
    return job ? this.#leased(names, job) : null;
  }

  /** From the places that the order of the queue has. */
  async #claim(
    db: Executor,
    names: Names,
    ordering: string,
    from: {
      /** Null: everything, from the front. */
      readonly line: LineRequest | null;
      readonly stretch: KeyStretch;
      readonly turn: KeyStretch;
      readonly maxKeys?: number;
    },
  ): Promise<ClaimedJob[]> {
    const asked = { ...this.#terms(names.queue), ask: false };
    const { line, stretch, turn, maxKeys } = from;
    if (ordering === 'none') {
      const lines = line ? [line] : frontLines(asked.versions, 1);
      const { jobs } = await claimTime(db, names, { ...asked, lines, lagMs: 0 });
      if (jobs.length > 0 || line) return jobs;
      const walks = Object.entries(asked.versions).map(([type, version]) => ({
        ...{ type, version: Math.max(...[version].flat()), afterKey: '' },
      }));
      const terms = { ...this.#terms(names.queue), walks, keys: 1_000 };
      return (await claimRateKeys(db, names, terms)).jobs;
    }
    if (ordering !== 'turns')
      return (await claimKeyed(db, names, { ...asked, stretches: [stretch], run: 1 })).jobs;
    const again = { again: false, ...(maxKeys !== undefined && { maxKeys }) };
    return (await claimTurns(db, names, { ...asked, ...again, stretches: [turn] })).jobs;
  }

  /** Limits are for fleets: a test runs what it asks for. */
  #terms(queue: string) {
    const handled = [...this.#routes.values()].filter(({ job }) => job.queue === queue);
    const versions = Object.fromEntries(
      handled.map(({ job, workflow }) => [
        job.type,
        workflow ? [...workflow.bodies.keys()] : job.version,
      ]),
    );
    this.#claims++;
    return {
      ...{ workerId: this.id, leaseMs: LEASE_MS, number: this.#claims, finished: [] },
      ...{ limit: 1, versions, held: 'unlimited' as const },
    };
  }

  #leased({ queue }: Names, row: ClaimedJob): LeasedJob {
    const now = systemTime.now();
    const facts = { workerId: this.id, clock: Date.now(), number: this.#claims };
    return new LeasedJob(row, { queue, ...facts, sentAt: now, claimedAt: now });
  }

  /** One attempt, to the answer of the database. */
  async run(held: LeasedJob): Promise<AttemptEnd> {
    const { pool, ownPool, plain, engine, log, maxPayloadBytes } = this.#deps;
    const route = this.#routes.get(held.row.type) as Route;
    const names = this.#deps.names(held.queue);
    const context = {
      ...{ names, pool, ownPool, plain, engine, log, maxPayloadBytes, tracing: null },
      emit: () => undefined,
      knownQueues: this.#knownQueues,
    };
    const io: Parameters<typeof newRunsIo>[0] = {
      ...{ engine, names, time: realTime, standing: () => 'alive' as const },
      // What a watched attempt meets was made on purpose.
      reportError: (what, error) => {
        if (!watching.getStore()) log.warn({ what, err: String(error) }, 'worker error');
      },
      abandoned: new AbortController().signal,
    };
    await this.start(held);
    const runs = route.workflow ? { runsIo: newRunsIo(io) } : {};
    const outcome = await runJob(held, route, { ...context, ...runs }, this.#timeoutMs);
    if (held.lost || held.gone) return { outcome, result: 'lost' };
    if (outcome.kind === 'suspended') return { outcome, result: 'suspended' };
    held.settling = true;
    const settler = newSettler({ ...io, plain, took: () => undefined });
    const result = await new Promise<SettleResult>((resolve) => {
      settleOutcome({ settler, context, route, held, done: (how) => resolve(how) }, outcome);
    });
    return { outcome, result };
  }

  /** As before a handler is called: one that crashed before is marked. */
  async start(held: LeasedJob): Promise<void> {
    held.started = true;
    if (held.row.crashes === 0) return;
    await markStarted(this.#deps.engine, this.#deps.names(held.queue), held.workerId, held);
  }

  /** As the keeper does it: a lease that cannot be renewed is lost, and the handler's signal says so. */
  async renew(held: LeasedJob): Promise<void> {
    const names = this.#deps.names(held.queue);
    const renewed = await renew(this.#deps.engine, names, this.id, [held], LEASE_MS);
    if (renewed.length > 0) return;
    held.lost = true;
    held.abort(leaseLost(held.id, 'what this attempt does from now on'));
  }
}

/** The stretch of the index that holds one key. */
function onlyKey({ bucket, key }: Place): KeyStretch {
  return { bucket, afterKey: before(key), untilBucket: bucket, untilKey: `${key}\u0001` };
}

/** One more of this key's turn: the walk begins with the key itself. */
function turnOf({ bucket, groupKey, key }: Place): KeyStretch {
  const afterKey = JSON.stringify([groupKey, key, 1]);
  return { bucket, afterKey, untilBucket: bucket + 1, untilKey: '' };
}

const HIGHEST = '\u{10FFFF}';

/** A text that sorts before the key and, in practice, behind every other key that does. */
function before(key: string): string {
  const letters = [...key];
  const last = (letters.pop() as string).codePointAt(0) as number;
  if (last <= 1) return letters.join('');
  // Halves of surrogate pairs are no letters.
  const lower = last === 0xe000 ? 0xd7ff : last - 1;
  return `${letters.join('')}${String.fromCodePoint(lower)}${HIGHEST.repeat(4)}`;
}
