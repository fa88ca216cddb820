/** Fleets of real processes, and load that goes on for as long as a test needs it. */
import { job } from '../../packages/holdfast/src/index.js';
import { Child, type ChildWorkerOptions, QUICK } from './child.js';
import type { Ground } from './ground.js';
import { until } from './until.js';

export interface FleetConfig {
  readonly options?: ChildWorkerOptions & { metadata?: Record<string, string> };
  /** Types with their versions. Default: all of `test/processes/fleet-worker.mjs` at version 1. */
  readonly handles?: Readonly<Record<string, number>>;
}

export type FleetWorker = Child & { readonly workerId: string };

/** A worker that is registered and looking for jobs. */
export async function fleetWorker(url: string, config: FleetConfig = {}): Promise<FleetWorker> {
  const child = new Child('fleet-worker', { url, options: QUICK, ...config });
  const { workerId } = await child.hears('started');
  return Object.assign(child, { workerId: workerId as string });
}

export function fleetOf(count: number, url: string, config: FleetConfig = {}) {
  return Promise.all(Array.from({ length: count }, () => fleetWorker(url, config)));
}

export interface Step {
  /** The number of the job within its key. */
  readonly n: number;
  readonly ms?: number;
  /** How many attempts fail before one succeeds. */
  readonly fails?: number;
}

const step = job<Step>('step');
const guardedStep = job<Step>('guarded_step');

/** More than this many jobs of a key do not wait at a time. */
const BACKLOG = 1.5;
/** Handlers wait for up to so long: a fleet that computes all the time has no time for anything else. */
const LONGEST_MS = 150;

/**
 * Jobs for many keys, round after round, until it is stopped. Every second key has handlers that complete
 * in a transaction of theirs. Every tenth job fails once.
 */
export class Load {
  readonly keys: readonly string[];
  rounds = 0;
  readonly #db: Ground;
  #on = true;
  readonly #done: Promise<void>;

  constructor(db: Ground, keys: number) {
    this.#db = db;
    this.keys = Array.from({ length: keys }, (_, n) => `order:${n}`);
    this.#done = this.#produce();
    this.#done.catch(() => undefined);
  }

  async #produce(): Promise<void> {
    while (this.#on) {
      const n = this.rounds;
      await this.#db.hf.enqueueMany(
        this.keys.map((key, place) => {
          const ms = (place + n) % LONGEST_MS;
          const payload = { n, ms, fails: (place + n) % 10 === 0 ? 1 : 0 };
          return (place % 2 ? step : guardedStep).item(payload, { partitionKey: key });
        }),
      );
      this.rounds++;
      await until(
        'the backlog is short',
        async () => !this.#on || (await this.#waiting()) < BACKLOG * this.keys.length,
        {
          timeoutMs: 60_000,
        },
      );
    }
  }

  async #waiting(): Promise<number> {
    const [row] = await this.#db.rows<{ n: number }>(
      'SELECT count(*)::int AS n FROM holdfast.inbox',
    );
    return row?.n as number;
  }

  /** Waits until the queue is empty, and returns how many jobs have passed it. */
  async finish(): Promise<number> {
    this.#on = false;
    await this.#done;
    await until('the queue is empty', async () => (await this.#waiting()) === 0, {
      timeoutMs: 60_000,
    });
    return this.rounds * this.keys.length;
  }
}

/** Waits until each of these has completed jobs since now. */
export async function allWork(db: Ground, fleet: readonly FleetWorker[]): Promise<void> {
  const [now] = await db.rows<{ at: string }>('SELECT clock_timestamp()::text AS at');
  await until('all of them work', async () => {
    const rows = await db.rows<{ id: string }>(
      `SELECT DISTINCT claimed_by AS id FROM holdfast.inbox_archive WHERE completed_at > $1`,
      [now?.at],
    );
    const busy = new Set(rows.map(({ id }) => id));
    for (const worker of fleet) if (worker.exit) throw new Error(worker.describe());
    return fleet.every((worker) => busy.has(idOf(worker)));
  });
}

/** Those that were declared dead: frozen ones, and on a machine that stands still for seconds others too. */
export function reregisteredPids(fleet: readonly FleetWorker[]): number[] {
  return fleet.filter((worker) => worker.heard('reregistered')).map(({ pid }) => pid);
}

/** Under which id it works now. */
function idOf(worker: FleetWorker): string {
  const reregistered = worker.messages.findLast(({ kind }) => kind === 'reregistered');
  return reregistered?.workerId ?? worker.workerId;
}
