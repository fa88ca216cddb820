/**
 * Simulated processes, each with a real worker of the product in it: its loops, its keeper and its statements, on
 * virtual time. A process can be killed, frozen and told to stop; a supervisor may start a killed one again.
 */

import type { HandlerContext, Logger, WorkerEvent, WorkerOptions } from 'holdfast';
import { bucketOf, job } from 'holdfast';
import { type Executor, engineExecutor, insert, Worker } from 'holdfast/internal';
import pg from 'pg';
import { Owner } from '../simulation/clock.js';
import type { Stage } from './stage.js';

const nothing = () => undefined;
const quiet: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };

export interface Payload {
  readonly name: string;
  readonly ms: number;
  /** It ends its process. */
  readonly poison?: boolean;
}

/** One call of a handler. */
export interface Run {
  readonly job: string;
  readonly key: string;
  readonly by: string;
  readonly from: number;
  to: number | null;
}

export type Standing = 'starting' | 'alive' | 'frozen' | 'draining' | 'stopped' | 'killed';

export interface Process {
  readonly name: string;
  readonly owner: Owner;
  readonly since: number;
  standing: Standing;
  worker: Worker | null;
  /** Every id that it was registered under. */
  readonly ids: string[];
}

export interface FleetOptions {
  readonly queue: string;
  readonly worker: WorkerOptions;
  /** A killed process is started again after so long; null: never. */
  readonly restartMs?: number | null;
  /** What a worker handles beside plain work. */
  readonly also?: (worker: Worker, name: string) => void;
  readonly onEvent: (name: string, event: WorkerEvent) => void;
  /** Something that should not be; the page shows it. */
  readonly onProblem: (text: string) => void;
}

export class Processes {
  readonly #stage: Stage;
  readonly #options: FleetOptions;
  readonly #nobody: Owner;
  readonly #producer: Owner;
  readonly all: Process[] = [];
  readonly runs: Run[] = [];
  /** Names of the jobs whose enqueue was confirmed. */
  readonly accepted: string[] = [];
  #db: Executor | null = null;
  /** Enqueues that are on their way. */
  #waiting = 0;
  #lives = 0;
  #names = 0;

  constructor(stage: Stage, options: FleetOptions) {
    this.#stage = stage;
    this.#options = options;
    this.#nobody = new Owner('lab', stage.seed);
    this.#producer = new Owner('producer', stage.seed + 1);
    stage.onKill = (owner) => this.#end(this.all.find((one) => one.owner === owner));
  }

  /** Those that are there, the latest of each name. */
  get present(): Process[] {
    return [...new Map(this.all.map((one) => [one.name, one])).values()];
  }

  named(name: string): Process | undefined {
    return this.all.findLast((one) => one.name === name);
  }

  newName(): string {
    return `worker-${++this.#names}`;
  }

  /** Something of ours, at a time from now. */
  later(ms: number, run: () => void): void {
    this.#stage.clock.at(this.#nobody, ms, run);
  }

  start(name: string, inMs = 0): void {
    const { clock, seed } = this.#stage;
    const owner = new Owner(name, seed * 31 + 7 * ++this.#lives);
    clock.at(owner, inMs, () => {
      const one: Process = {
        ...{ name, owner, since: clock.now, standing: 'starting', worker: null, ids: [] },
      };
      this.all.push(one);
      const worker = this.#worker(one);
      one.worker = worker;
      worker.run().then(
        () => {
          if (one.standing !== 'killed') one.standing = 'stopped';
        },
        (error) => this.#options.onProblem(`${name} ended: ${error}`),
      );
    });
  }

  #worker(one: Process): Worker {
    const { queue, worker: options, onEvent, onProblem } = this.#options;
    const deps = {
      ...{ address: { connectionString: one.name }, direct: null, besidePool: false },
      ...{ pool: new pg.Pool(), schema: 'holdfast', log: quiet },
      ...{ tracing: null, maxPayloadBytes: 1_000_000, listeners: new Set<never>() },
      ...{ prepare: true, pooler: false, enter: () => () => {} },
    };
    const worker: Worker = new Worker(deps, {
      ...options,
      handleSignals: false,
      onEvent: (event) => {
        if (event.kind === 'started' || event.kind === 'reregistered') {
          one.ids.push(event.workerId);
          if (one.standing === 'starting') one.standing = 'alive';
        }
        if (event.kind === 'error' && one.standing === 'starting')
          onProblem(`${one.name} cannot start: ${event.what}: ${event.error}`);
        onEvent(one.name, event);
      },
    });
    const work = job<Payload>('work', { queue, maxAttempts: 5 });
    worker.handle(work, (context) => this.#handle(one, context));
    this.#options.also?.(worker, one.name);
    return worker;
  }

  async #handle(one: Process, context: HandlerContext<Payload>): Promise<void> {
    const { payload, partitionKey: key } = context;
    const { clock } = this.#stage;
    const run: Run = { job: payload.name, key, by: one.name, from: clock.now, to: null };
    this.runs.push(run);
    await new Promise((resolve) => setTimeout(resolve, payload.ms));
    if (payload.poison) {
      this.#end(one);
      // Nothing of a dead process goes on.
      await new Promise(() => undefined);
    }
    run.to = clock.now;
  }

  /** Something that a process of its own asks the database for, now. */
  produce(work: (db: Executor) => Promise<unknown>): void {
    this.#stage.clock.at(this.#producer, 0, () => {
      this.#db ??= engineExecutor(new pg.Pool({ max: 10 }), { prepare: true });
      work(this.#db).catch((error) => this.#options.onProblem(`It failed: ${error}`));
    });
  }

  enqueue(key: string, payload: Omit<Payload, 'name'>, maxAttempts = 5): void {
    const id = this.#stage.newId();
    const name = `job-${this.accepted.length + this.#waiting + 1}`;
    this.#waiting++;
    const names = { schema: 'holdfast', queue: this.#options.queue };
    const row = {
      ...{ id, key, type: 'work', version: 1, bucket: bucketOf(key), headers: null, priority: 2 },
      ...{ payload: JSON.stringify({ name, ...payload }), maxAttempts, delayMs: 0, runAt: null },
      ...{ idempotencyKey: null, unique: null, group: null, limitKey: null },
    };
    this.produce(async (db) => {
      await insert(db, names, [row]);
      this.#waiting--;
      this.accepted.push(name);
    });
  }

  /** As SIGKILL: nothing is said, and the sessions end. */
  kill(name: string): void {
    const one = this.named(name);
    if (one) this.later(0, () => this.#end(one));
  }

  #end(one: Process | undefined): void {
    if (!one || one.owner.dead) return;
    one.owner.dead = true;
    one.standing = 'killed';
    this.#stage.server.hangUp(one.owner, 2);
    const { restartMs = null } = this.#options;
    if (restartMs !== null) this.start(one.name, restartMs);
  }

  /** As SIGSTOP, and SIGCONT after so long. */
  freeze(name: string, ms: number): void {
    const one = this.named(name);
    if (!one) return;
    this.later(0, () => {
      if (one.owner.dead || one.standing === 'stopped') return;
      one.owner.frozenUntil = this.#stage.now + ms;
      const was = one.standing;
      one.standing = 'frozen';
      this.later(ms, () => {
        if (one.standing === 'frozen') one.standing = was;
      });
    });
  }

  /** As SIGTERM: it claims no more, finishes what it runs, and ends. */
  stop(name: string): void {
    const one = this.named(name);
    if (!one?.worker || one.owner.dead) return;
    const { worker } = one;
    this.#stage.clock.at(one.owner, 0, () => {
      if (one.standing === 'alive') one.standing = 'draining';
      void worker.stop();
    });
  }
}
