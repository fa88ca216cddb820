/**
 * What happened in a simulation, as a text that is the same for the same seed, and as facts for the checks.
 *
 * Ids of jobs are written as the names of the plan. Times are virtual.
 */
import type { WorkerEvent } from '../../../packages/holdfast/src/worker/events.js';
import type { Clock, Owner } from '../../../packages/lab/src/simulation/clock.js';
import type { Answer } from '../../../packages/lab/src/simulation/wire.js';
import type { Plan, PlannedJob } from './plan.js';

export interface Attempt {
  readonly worker: string;
  readonly job: string;
  readonly generation: number;
  readonly from: number;
  to: number | null;
}

export interface Settle {
  readonly worker: string;
  readonly job: string;
  readonly generation: number;
}

const SETTLES = /^(complete|complete_runs|fail|bury|dead_letter|release|snooze|cancel)$/;

export class History {
  readonly lines: string[] = [];
  readonly attempts: Attempt[] = [];
  readonly completed: Settle[] = [];
  readonly enqueueingAt = new Map<string, number>();
  readonly enqueuedAt = new Map<string, number>();
  readonly problems: string[] = [];
  /** By id, when its silence was the reason to declare it dead. */
  readonly #sweptAt = new Map<string, number>();
  /** By owner and second, how many statements. */
  readonly #rate = new Map<string, number>();
  readonly #clock: Clock;
  readonly #names: ReadonlyMap<string, string>;

  constructor(clock: Clock, plan: Plan) {
    this.#clock = clock;
    this.#names = new Map(plan.jobs.map(({ id, name }) => [id, name]));
  }

  say(text: string): void {
    this.lines.push(`${this.#clock.now.toFixed(2).padStart(10)}  ${text}`);
  }

  fail(text: string): void {
    this.say(`PROBLEM ${text}`);
    this.problems.push(text);
  }

  statement(
    owner: Owner,
    what: string,
    params: readonly unknown[],
    { rows, error }: Answer,
    sentAt: number,
  ): void {
    const ids = rows.flatMap((row) => row.flatMap((value) => this.#names.get(value ?? '') ?? []));
    const answer = error
      ? `${error.code} ${error.message}`
      : `${rows.length} ${ids.sort().join(' ')}`;
    this.say(`${owner.name}: ${what} -> ${answer.trimEnd()}`);
    if (error) this.fail(`${what} was refused: ${error.code} ${error.message}`);
    const second = `${owner.name} ${Math.floor(this.#clock.now / 1_000)}`;
    this.#rate.set(second, (this.#rate.get(second) ?? 0) + 1);
    if (what === 'sweep_workers') {
      for (const [id] of rows) this.#sweptAt.set(id ?? '', this.#clock.now);
    }
    const swept = this.#sweptAt.get(String(params[0]));
    if (SETTLES.test(what) && swept !== undefined && sentAt > swept) {
      this.fail(`${params[0]} sent ${what} after it had been declared dead for its silence`);
    }
  }

  event(name: string, worker: string, event: WorkerEvent): void {
    if (event.kind !== 'completed' && event.kind !== 'failed' && event.kind !== 'lost') return;
    const job = this.#names.get(event.id) ?? event.id;
    this.say(`${name}: ${event.kind} ${job} generation ${event.generation}`);
    if (event.kind === 'completed')
      this.completed.push({ worker, job, generation: event.generation });
  }

  started(worker: string, job: string, generation: number): Attempt {
    this.say(`${worker} starts ${job} generation ${generation}`);
    const swept = this.#sweptAt.get(worker);
    if (swept !== undefined) this.fail(`${worker} started ${job} after it had been declared dead`);
    const attempt = { worker, job, generation, from: this.#clock.now, to: null };
    this.attempts.push(attempt);
    return attempt;
  }

  succeeded(attempt: Attempt): void {
    attempt.to = this.#clock.now;
    this.say(`${attempt.worker} has done ${attempt.job}`);
  }

  enqueueing({ name }: PlannedJob): void {
    this.enqueueingAt.set(name, this.#clock.now);
  }

  enqueued({ name }: PlannedJob): void {
    this.enqueuedAt.set(name, this.#clock.now);
  }

  /** The most statements that one process sent within a second. */
  get busiest(): number {
    return Math.max(0, ...this.#rate.values());
  }
}
