/**
 * The place of one job in a batch. Its attempt waits here for what becomes of it. In a run of a key each waits for the
 * one before it; once one has failed, those behind it are stopped, and go back unspent.
 */
import type { JobContext } from './context.js';
import { type BatchJob, leaseLost, type Settled } from './handler-context.js';
import type { LeasedJob } from './leased-job.js';

const YES = Promise.resolve(true);
const SETTLED: Settled = { settled: true };

export class BatchSlot {
  job: BatchJob<unknown> | null = null;
  /** Whether the job before it in its key succeeded; see Runs. */
  ahead: Promise<boolean> = YES;
  readonly held: LeasedJob | null;
  onDecided: () => void = () => {};
  #context: JobContext<unknown> | null = null;
  #behind: BatchSlot | null = null;
  /** The handler, or the end of a job before it, has said what becomes of it. */
  decided = false;
  #stopped = false;
  #resolve!: (result: unknown) => void;
  #reject!: (error: unknown) => void;
  readonly #outcome = new Promise<unknown>((resolve, reject) => {
    this.#resolve = resolve;
    this.#reject = reject;
  });
  #filled!: () => void;
  /** Its job has come, or will not come. */
  readonly filled = new Promise<void>((resolve) => {
    this.#filled = resolve;
  });

  /** `held` is its job; null: it is alone. */
  constructor(before: BatchSlot | null, held: LeasedJob | null) {
    if (before) before.#behind = this;
    this.held = held;
    // After its time limit nobody waits for it.
    this.#outcome.catch(() => undefined);
  }

  get taken(): boolean {
    return this.job !== null && !this.#stopped;
  }

  /** Its outcome is open, and it is still ours. */
  get isOpen(): boolean {
    return this.taken && !this.decided && !this.#lost && !this.context.isOver;
  }

  get #lost(): boolean {
    return this.held !== null && (this.held.lost || this.held.gone);
  }

  get context(): JobContext<unknown> {
    return this.#context as JobContext<unknown>;
  }

  /** Its attempt is over. If it did not come here, as with a payload that cannot be read, it did not succeed. */
  leave(): void {
    if (!this.#context) this.#behind?.stop();
    this.#filled();
  }

  /** The handler of the job, as its attempt knows it. */
  async join(context: JobContext<unknown>): Promise<unknown> {
    this.#context = context;
    this.job = Object.assign(context, {
      done: (result?: unknown) => this.done(result),
      fail: (error: unknown) => this.fail(error),
    });
    if (this.#stopped) context.end('failed');
    this.#filled();
    // Unless the one before it succeeded it goes back, whatever the handler says.
    return (await this.ahead) ? this.#outcome : undefined;
  }

  done(result: unknown): Settled {
    this.#resolve(result);
    return this.#decide();
  }

  fail(error: unknown): Settled {
    if (!this.decided) this.#behind?.stop();
    this.#reject(error);
    return this.#decide();
  }

  #decide(): Settled {
    this.decided = true;
    this.onDecided();
    return SETTLED;
  }

  /** If its job is not ours any more, those behind it in its key are not to be waited for either. */
  stopBehindLost(): void {
    if (this.#lost) this.#behind?.stop();
  }

  stop(): void {
    const { held } = this;
    this.#stopped = true;
    this.decided = true;
    // What it records from now on would stand although the job before it has not succeeded.
    this.#context?.end('failed');
    held?.abort(leaseLost(held.id, 'what it does behind a failed job of its key'));
    this.#behind?.stop();
    this.onDecided();
  }
}
