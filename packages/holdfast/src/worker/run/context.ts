/**
 * The handler's context: the job (leased-job.ts), and what a handler may do with it under its fence. `transaction` and
 * `complete` settle the job inside a transaction; `once` remembers an effect outside Postgres; `enqueue` hands children
 * over with the completion.
 */
import type pg from 'pg';
import { runOnce } from '../../effects/run-once.js';
import { checkOnce, type OnceOptions, withFallback } from '../../effects/value.js';
import { prepareJobs } from '../../enqueue/enqueue.js';
import type { NewJob } from '../../enqueue/insert.js';
import { checkTx } from '../../enqueue/transaction.js';
import type { HoldfastError } from '../../job/errors/holdfast-error.js';
import {
  checkDefinition,
  type EnqueueItem,
  type EnqueueOptions,
  type JobDefinition,
  type PayloadOf,
} from '../../job/job.js';
import { checkKey } from '../../job/key.js';
import type { Stored } from '../../job/options/stored.js';
import { checkQueueName } from '../../postgres/names.js';
import { executor, type Queryable } from '../../postgres/queryable.js';
import { type Child, committing, completeIn, inTheirTurn, writeChildren } from './completion.js';
import type { ContextDeps } from './context-deps.js';
import {
  type HandlerContext,
  jobState,
  leaseLost,
  type Route,
  timedOut,
} from './handler-context.js';
import { JobFacts, type LeasedJob } from './leased-job.js';
import { Call, OpenCalls } from './open-calls.js';
import { isNew, resultText } from './result.js';

/** What the run needs to know of a context after the handler has ended. */
export class JobContext<Payload> extends JobFacts<Payload> implements HandlerContext<Payload> {
  readonly #deps: ContextDeps;
  #tx: Queryable | null = null;
  #transacting = false;
  /** Children that were written to the transaction which has the completion in it. */
  #handed: Child[] = [];
  /** 'handed': a transaction has the completion in it, and whether it commits is not known here. */
  completion: 'none' | 'done' | 'handed' = 'none';
  /** The database refused a completion inside of a transaction, as it would that of any other job. */
  refusal: unknown = null;
  /** While a transaction of ours is open: takes its connection out of the pool. */
  connection: ((error: Error) => void) | null = null;
  readonly children: Child[] = [];
  readonly calls = new OpenCalls();
  /** Those that make children: a completion takes them along. */
  readonly writing = new OpenCalls();
  #effects: Map<string, Promise<unknown>> | null = null;
  #over: 'returned' | 'failed' | null = null;
  /** Its time limit, once that is over. */
  #timeoutMs: number | null = null;
  readonly #job: Route['job'];
  /** What is wrong with the result: the job becomes a dead letter. */
  refusedResult: unknown = null;

  constructor(held: LeasedJob, payload: Payload, deps: ContextDeps, job: Route['job']) {
    super(held, payload, deps.log);
    this.#deps = deps;
    this.#job = job;
  }

  get hasResultSchema(): boolean {
    return this.#job.hasResultSchema;
  }

  async checkResult(result: unknown): Promise<void> {
    try {
      await this.#job.checkResult(result);
    } catch (error) {
      this.refusedResult = error;
      throw error;
    }
  }

  // Handlers take these out of the context: ({ payload, once }) => …. Bound when asked for, they cost
  // nothing to handlers that do not.
  get once(): HandlerContext<Payload>['once'] {
    return (name: string, effect: () => unknown, options?: OnceOptions<unknown>) => {
      if (options === undefined) return this.#call(this.#onceAtATime(name, effect));
      return this.#call(this.#onceOr(name, effect, options));
    };
  }
  get transaction(): HandlerContext<Payload>['transaction'] {
    return (work) => this.#call(this.#transaction(work));
  }
  get complete(): HandlerContext<Payload>['complete'] {
    return (tx, result) => this.#call(this.#complete(tx, result));
  }
  get enqueue(): HandlerContext<Payload>['enqueue'] {
    return (job, payload, options) => {
      const call = this.#call(this.#enqueue(job, payload, options));
      this.writing.add(call);
      return call;
    };
  }

  #call<Value>(made: Promise<Value>): Call<Value> {
    const call = Call.of(made);
    this.calls.add(call);
    return call;
  }

  /** The outcome is settled from what is known now; whatever the handler calls from here on is refused. */
  end(how: 'returned' | 'failed'): void {
    // The first word counts: after its time limit a handler may still return.
    this.#over ??= how;
  }

  /** Its time limit is over, and with it the attempt. */
  timeOut(timeoutMs: number): void {
    if (this.#over === null && !this.held.lost && !this.held.gone) this.#timeoutMs = timeoutMs;
    this.end('failed');
  }

  get isTimedOut(): boolean {
    return this.#timeoutMs !== null;
  }

  /** Why what the handler does is refused, where the job is not held by this attempt any more. */
  notHeld(doing: string): HoldfastError {
    return this.#timeoutMs === null
      ? leaseLost(this.id, doing)
      : timedOut(this.id, this.#timeoutMs, doing);
  }

  /** Its connection is not waited for any more: whatever the handler has open on it is rolled back. */
  cutOff(): void {
    this.connection?.(this.notHeld('its transaction'));
  }

  get isOver(): boolean {
    return this.#over !== null;
  }

  /** Who asks for an effect that is under way gets what comes of that one. */
  #onceAtATime<Value>(name: string, effect: () => Value | Promise<Value>): Promise<Stored<Value>> {
    this.#effects ??= new Map();
    const effects = this.#effects;
    const open = effects.get(name);
    if (open) return open as Promise<Stored<Value>>;
    const made = this.#once(name, effect);
    effects.set(name, made);
    const over = () => void effects.delete(name);
    made.then(over, over);
    return made;
  }

  async #onceOr(name: string, effect: () => unknown, options: OnceOptions<unknown>) {
    checkOnce(options);
    return withFallback(this.#onceAtATime(name, effect), options);
  }

  async #once<Value>(name: string, effect: () => Value | Promise<Value>): Promise<Stored<Value>> {
    checkKey(name, 'name of the effect', 'no effect ran; use a short text such as "charge"');
    const { names, engine, maxPayloadBytes } = this.#deps;
    const owner = { workerId: this.held.workerId, id: this.id, generation: this.fenceToken };
    const done = await runOnce(engine, names, owner, maxPayloadBytes, {
      ...{ name, effect, warn: (problem: string) => this.#warnOfValue(name, problem) },
      begins: () => this.#assertHeld(`the effect "${name}"`),
    });
    if (done) return done.value;
    // Completed by this handler meanwhile, the row is gone for a good reason.
    if (this.completion === 'none') this.held.gone = true;
    throw this.notHeld(`the marker of the effect "${name}"`);
  }

  #warnOfValue(name: string, problem: string): void {
    if (!isNew(this.#deps.log, 'effect', this.queue, this.type, name)) return;
    this.log.warn(
      { effect: name, problem },
      'ctx.once cannot keep the value of an effect as it is; the effect is recorded and is not repeated',
    );
  }

  async #transaction<Value>(work: (tx: pg.PoolClient) => Promise<Value>): Promise<Value> {
    this.#assertHeld('the transaction');
    if (this.#transacting)
      throw jobState(
        `Job ${this.id} has a transaction open already, so a second one was refused. Do all of it in one: the job completes with it.`,
      );
    this.#transacting = true;
    try {
      await inTheirTurn([this], 'the transaction');
      await this.writing.ended();
      return await committing([this], this.#deps.pool, async (tx) => {
        this.#tx = tx;
        try {
          const value = await work(tx);
          await this.#complete(tx, value);
          return value;
        } finally {
          // From here on nobody writes to it: that would be written although this may be rolled back.
          this.#tx = null;
        }
      });
    } finally {
      this.#transacting = false;
    }
  }

  async #complete(tx: Queryable, result: unknown): Promise<void> {
    const doing = 'the completion';
    this.#assertHeld(doing);
    checkTx(tx);
    if (this.hasResultSchema) await this.checkResult(result);
    await inTheirTurn([this], doing);
    await this.writing.ended();
    // Again: another call may have completed the job meanwhile, or the attempt may be over.
    this.#assertHeld(doing);
    const text = resultText(result, this.held, this.#deps);
    await completeIn(tx, [this], this.#deps, doing, text);
  }

  /** Its completion goes into a transaction. Returns its children, which go with it. */
  handOver(): readonly Child[] {
    this.completion = 'handed';
    this.#handed = this.children.splice(0);
    return this.#handed;
  }

  /** Certainly not committed: the job is still ours, and its children still wait. */
  takeBack(): void {
    // After the end the job is being settled, and what that does is not to be undone here.
    if (this.#over) return;
    this.completion = 'none';
    this.held.settling = false;
    this.children.unshift(...this.#handed.splice(0));
  }

  async #enqueue<Input>(
    job: JobDefinition<Input, unknown>,
    payload: PayloadOf<Input>,
    options: EnqueueOptions = {},
  ): Promise<{ id: string }> {
    this.#assertHeld('the child job');
    checkDefinition(job, 'The first argument of ctx.enqueue()', 'The child was not enqueued.');
    const { tracing } = this.#deps;
    // Where it is called is where it belongs, however long it takes to get there.
    const tx = this.#tx;
    if (!tracing) return this.#enqueueChild(tx, job.item(payload, options));
    const { queue, type } = job;
    const about = { queue, type, count: 1, operation: tx ? 'send' : 'create' } as const;
    const [child] = await tracing.send(about, async (withContext) => {
      const headers = withContext(options.headers);
      const item = job.item(payload, { ...options, ...(headers && { headers }) });
      return [await this.#enqueueChild(tx, item)];
    });
    return child as { id: string };
  }

  async #enqueueChild(tx: Queryable | null, item: EnqueueItem): Promise<{ id: string }> {
    const { queue } = item.job;
    const limits = { maxPayloadBytes: this.#deps.maxPayloadBytes, onMismatch: 'error' } as const;
    const [job] = (await prepareJobs([item], limits)) as [NewJob];
    const child = { queue: checkQueueName(queue), job };
    const { strict, engine, names, knownQueues } = this.#deps;
    const target = { ...names, queue };
    // Found out only with the completion, every attempt would do its work first.
    if (queue !== names.queue) await knownQueues.check(engine, target, job.type);
    // Not in the handler's transaction: what this reads has been committed.
    await strict?.check(target, [job], () => engine);
    if (!tx) {
      this.children.push(child);
      return { id: job.id };
    }
    // Its client may be in other hands by now.
    if (this.#tx !== tx)
      throw jobState(
        `The transaction in which the child of job ${this.id} was enqueued is over, so it was not written. Wait for ctx.enqueue inside of the transaction.`,
      );
    const { written, tell } = await writeChildren(executor(tx), [child], this.#deps);
    tell();
    return { id: written[0]?.id ?? job.id };
  }

  #assertHeld(doing: string): void {
    // A failed attempt has given its lease up: the next one may have begun.
    if (this.held.lost || this.held.gone || this.#over === 'failed') throw this.notHeld(doing);
    if (this.#over) {
      // Whoever called it may not be listening any more.
      this.#deps.log.warn(
        { job: this.id, type: this.type, what: doing },
        'a handler used its context after the end of its attempt, and was refused',
      );
      throw jobState(
        `The attempt of job ${this.id} is over, so ${doing} was refused. Let the handler wait for everything that it starts.`,
      );
    }
    if (this.completion !== 'none')
      throw jobState(
        `Job ${this.id} has been completed by this handler already, so ${doing} was refused. Complete a job once, at the end.`,
      );
  }
}
