/**
 * What this process has in hand of one queue, from the claim to the settle.
 *
 * Everything that is held is in here and is told to the keeper, so that its lease is renewed. A job
 * leaves when the database has answered its settle, or when it is lost: then its handler's signal is
 * aborted and nothing that it settles counts. Counts and events of jobs are made here and nowhere else.
 */
import type { Ended, JobEvent, WorkerEvent, WorkerStats } from './events.js';
import { type ContextGround, leaseLost } from './handler-context.js';
import type { HeldJob } from './held.js';
import type { Keeper } from './keeper.js';
import type { Outcome, Route } from './run.js';
import { settleOutcome } from './settle-outcome.js';
import type { Settler } from './settler.js';

export interface InHandGround {
  readonly settler: Settler;
  readonly keeper: Keeper;
  readonly context: ContextGround;
  readonly stats: WorkerStats;
  readonly emit: (event: WorkerEvent) => void;
  /** Whether anybody listens: two events for every job are not made for nobody. */
  readonly heard: () => boolean;
}

export interface InHandHooks {
  /** A job has left: there is room for another. */
  readonly changed: () => void;
  /** A job went back to the queue, to be run again after so long. */
  readonly putOff: (held: HeldJob, delayMs: number) => void;
}

export class InHand {
  readonly #queue: string;
  readonly #ground: InHandGround;
  readonly #hooks: InHandHooks;
  readonly #held = new Map<string, HeldJob>();

  constructor(queue: string, ground: InHandGround, hooks: InHandHooks) {
    this.#queue = queue;
    this.#ground = ground;
    this.#hooks = hooks;
  }

  get size(): number {
    return this.#held.size;
  }

  values(): HeldJob[] {
    return [...this.#held.values()];
  }

  /** Told to the keeper before anything is started: a handler that blocks must not cost the others. */
  take(jobs: readonly HeldJob[]): void {
    const { keeper, stats, emit } = this.#ground;
    keeper.hold(this.#queue, jobs);
    for (const job of jobs) this.#held.set(job.id, job);
    stats.claimed += jobs.length;
    const types: Record<string, number> = {};
    for (const { row } of jobs) types[row.type] = (types[row.type] ?? 0) + 1;
    const taken = jobs.filter(({ row }) => row.taken).length;
    emit({ kind: 'claimed', queue: this.#queue, count: jobs.length, types, taken });
  }

  /** Claimed, but the claim counted no more when its answer was read. */
  missed(jobs: readonly HeldJob[]): void {
    this.#ground.stats.claimed += jobs.length;
    for (const job of jobs) this.lose(job);
  }

  settle(held: HeldJob, route: Route, outcome: Outcome): void {
    if (held.gone) this.lose(held);
    if (held.lost) {
      this.forget(held);
      return;
    }
    held.settling = true;
    const { settler, context } = this.#ground;
    settleOutcome({ settler, context, route }, held, outcome, (how, delayMs) => {
      this.#settled(held, how);
      const again = how === 'failed' || how === 'snoozed';
      if (again && delayMs !== undefined) this.#hooks.putOff(held, delayMs);
    });
  }

  /** Back to the queue, unspent; what is settled or lost already is left alone. */
  release(held: HeldJob): void {
    if (held.settling) return;
    if (held.lost) {
      this.forget(held);
      return;
    }
    held.settling = true;
    const job = { id: held.id, generation: held.generation };
    this.#ground.settler.release(held.workerId, job, (moved) => {
      this.#settled(held, moved === null ? 'lost' : 'released');
      if (moved !== null) this.#hooks.putOff(held, 0);
    });
  }

  #settled(held: HeldJob, how: Ended): void {
    if (how === 'lost') {
      // Perhaps only what ran before it was lost: then the row is still ours, and must not wait for its lease.
      if (held.before) this.#letGo(held);
      this.lose(held);
    } else {
      held.how = how;
      this.#ground.stats[how]++;
      this.told(how, held);
    }
    this.forget(held);
  }

  #letGo(held: HeldJob): void {
    const { id, generation, workerId } = held;
    this.#ground.settler.release(workerId, { id, generation }, () => undefined);
  }

  lose(held: HeldJob): void {
    if (held.lost) return;
    held.lost = true;
    held.abort(leaseLost(held.id, 'what this attempt does from now on'));
    this.#ground.stats.lost++;
    this.#ground.context.log.warn(
      { job: held.id, type: held.row.type, generation: held.generation, worker: held.workerId },
      'the lease of a job was lost; nothing that this attempt settles counts',
    );
    this.told('lost', held);
  }

  forget(held: HeldJob): void {
    if (this.#held.get(held.id) === held) this.#held.delete(held.id);
    this.#ground.keeper.drop(held);
    held.leave();
    this.#hooks.changed();
  }

  /** The keeper could not renew these, unless a settle of ours is the reason. */
  find(jobs: readonly { id: string; generation: number }[]): HeldJob[] {
    return jobs.flatMap(({ id, generation }) => {
      const held = this.#held.get(id);
      return held?.generation === generation && !held.settling ? [held] : [];
    });
  }

  told(kind: JobEvent['kind'], held: HeldJob): void {
    if (!this.#ground.heard()) return;
    const { id, queue, generation, row, ranMs } = held;
    const event = { kind, queue, id, type: row.type, generation };
    if (kind === 'started-job') {
      const waitedMs = held.clock - Date.parse(row.cursorAt) + performance.now() - held.claimedAt;
      this.#ground.emit({ ...event, waitedMs });
    } else this.#ground.emit(ranMs === null ? event : { ...event, ranMs });
  }
}
