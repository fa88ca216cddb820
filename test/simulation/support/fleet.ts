/** The processes of a simulation: a producer, and workers that are started, frozen, killed and started again. */
import pg from 'pg';
import { insert } from '../../../packages/holdfast/src/enqueue/insert.js';
import { job } from '../../../packages/holdfast/src/job/job.js';
import { bucketOf } from '../../../packages/holdfast/src/job/key.js';
import { engineExecutor } from '../../../packages/holdfast/src/postgres/queryable.js';
import type { HandlerContext } from '../../../packages/holdfast/src/worker/run/handler-context.js';
import { Worker } from '../../../packages/holdfast/src/worker/worker.js';
import { type Clock, Owner } from '../../../packages/lab/src/simulation/clock.js';
import type { Server } from '../../../packages/lab/src/simulation/server.js';
import { quietLogger } from '../../support/logger.js';
import type { History } from './history.js';
import type { Plan, PlannedJob, ProcessFault } from './plan.js';

export const LEASE_MS = 6_000;
const OPTIONS = {
  concurrency: 2,
  lease: LEASE_MS,
  renewEvery: 2_000,
  heartbeat: 2_000,
  ttl: 6_000,
  poll: 2_000,
  maintenance: 4_000,
  grace: 1_000,
  handleSignals: false,
};

export class Fleet {
  readonly #plan: Plan;
  readonly #clock: Clock;
  readonly #server: Server;
  readonly #history: History;
  readonly #owners = new Map<string, Owner>();
  readonly #workers = new Map<string, Worker>();
  readonly #nemesis: Owner;
  #lives = 0;
  /** How many faults took place. */
  struck = 0;
  /** When the last frozen process goes on. */
  quietAt = 0;

  constructor(plan: Plan, clock: Clock, server: Server, history: History) {
    this.#plan = plan;
    this.#clock = clock;
    this.#server = server;
    this.#history = history;
    this.#nemesis = new Owner('nemesis', plan.seed);
  }

  start(): void {
    for (const [n, name] of this.#plan.workers.entries()) this.#startWorker(name, 3 * n);
    this.#startProducer();
  }

  strike({ kind, owner: name, atMs, ms }: ProcessFault): void {
    this.#clock.at(this.#nemesis, atMs, () => {
      const owner = this.#owners.get(name);
      if (!owner || owner.dead) return;
      this.struck++;
      if (kind === 'freeze') this.quietAt = Math.max(this.quietAt, this.#clock.now + ms);
      this.#history.say(`${kind} ${name} for ${ms} ms`);
      if (kind === 'freeze') owner.frozenUntil = Math.max(owner.frozenUntil, this.#clock.now + ms);
      else if (kind === 'kill') this.kill(name, owner, ms);
      else this.#clock.at(owner, 0, () => void this.#stop(name, owner, ms));
    });
  }

  kill(name: string, owner: Owner, backMs: number): void {
    owner.dead = true;
    this.#server.hangUp(owner, 2);
    this.#startWorker(name, backMs);
  }

  async #stop(name: string, owner: Owner, backMs: number): Promise<void> {
    const worker = this.#workers.get(name);
    await worker?.stop();
    if (owner.dead) return;
    this.#history.say(`${name} has stopped`);
    this.#clock.at(this.#nemesis, 0, () => this.kill(name, owner, backMs));
  }

  #startWorker(name: string, inMs: number): void {
    const owner = new Owner(name, this.#plan.seed * 31 + 7 * ++this.#lives);
    this.#clock.at(owner, inMs, () => {
      this.#owners.set(name, owner);
      const pool = new pg.Pool();
      const deps = {
        address: { connectionString: name },
        ...{
          direct: null,
          besidePool: false,
          enter: () => () => {},
          pool,
          schema: 'holdfast',
          log: quietLogger,
          tracing: null,
        },
        ...{
          maxPayloadBytes: 1_000_000,
          listeners: new Set<never>(),
          prepare: true,
          pooler: false,
        },
      };
      const worker = new Worker(deps, {
        ...OPTIONS,
        ...(this.#plan.deaf && { poll: 3_600_000 }),
        onEvent: (event) => this.#history.event(name, worker.id, event),
      });
      this.#workers.set(name, worker);
      const work = job<{ name: string }>('work', { queue: this.#plan.queue, retry: () => 700 });
      worker.handle(work, (context) => this.#handle(worker, context));
      this.#history.say(`${name} starts as ${worker.id}`);
      worker.run().catch((error) => this.#history.fail(`${name} ended: ${error}`));
    });
  }

  async #handle(worker: Worker, context: HandlerContext<{ name: string }>): Promise<void> {
    const planned = this.#plan.jobs.find(({ name }) => name === context.payload.name);
    const generation = context.fenceToken;
    const attempt = this.#history.started(worker.id, context.payload.name, Number(generation));
    if (!planned) return;
    if (planned.handlerMs > 0)
      await new Promise((resolve) => setTimeout(resolve, planned.handlerMs));
    if (context.attempt <= planned.failures) throw new Error('as planned');
    this.#history.succeeded(attempt);
  }

  #startProducer(): void {
    const owner = new Owner('producer', this.#plan.seed + 1);
    this.#clock.at(owner, 0, () => {
      const db = engineExecutor(new pg.Pool({ max: 10 }), { prepare: true });
      for (const planned of this.#plan.jobs) {
        setTimeout(() => void this.#enqueue(db, planned), planned.atMs);
      }
    });
  }

  async #enqueue(db: ReturnType<typeof engineExecutor>, planned: PlannedJob): Promise<void> {
    const { id, key, name } = planned;
    this.#history.enqueueing(planned);
    await insert(db, { schema: 'holdfast', queue: this.#plan.queue }, [
      {
        ...{ id, key, type: 'work', version: 1, bucket: bucketOf(key), headers: null, priority: 2 },
        ...{ payload: JSON.stringify({ name }), maxAttempts: 5, delayMs: 0, runAt: null },
        idempotencyKey: null,
        unique: null,
        group: null,
        limitKey: null,
      },
    ]);
    this.#history.enqueued(planned);
  }
}
