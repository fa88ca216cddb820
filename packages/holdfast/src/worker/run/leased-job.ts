/**
 * A claimed row held by this process, from the claim to the settle, under the id by which it was claimed. The abort
 * controller, the dearest object of a short job, is made only when a handler asks for its signal.
 */
import type { ClaimedJob } from '../../claim/take.js';
import { childLogger, type Logger } from '../../postgres/log/log.js';
import type { Processing } from '../../tracing/tracing.js';
import type { SettleResult } from '../events.js';
import type { Batch } from '../lease/batches.js';

export interface ClaimFacts {
  readonly queue: string;
  readonly workerId: string;
  /** When the claim was sent, and when its answer was read. */
  readonly sentAt: number;
  readonly claimedAt: number;
  /** By the database's clock, in milliseconds. */
  readonly clock: number;
  readonly number: number;
}

export class LeasedJob {
  readonly row: ClaimedJob;
  readonly claim: ClaimFacts;
  /** Set by the runner when nothing that this process does with the job counts any more. */
  lost = false;
  /** Set by the context when the database has said so; the runner makes `lost` of it, and reports it. */
  gone = false;
  /** A settle is under way; its answer decides, not a renewal that crosses it. */
  settling = false;
  releasing = false;
  /** How it ended, as far as the database has said. */
  how: SettleResult | null = null;
  /** Something may stand behind it that its claim did not take. */
  hasMore = false;
  started = false;
  together = 1;
  /** How long its handler took; null until it has ended. */
  ranMs: number | null = null;
  /** The job of the same key that ran before this one in this process, if it may not be settled yet. */
  before: LeasedJob | null = null;
  /** With which it was sent to the keeper, until it leaves. */
  batch: Batch | null = null;
  /** While its handler runs and has returned a promise: told of an abort. */
  attempt: { aborted(): void } | null = null;
  #left = false;
  #onLeft: (() => void)[] | null = null;
  #controller: AbortController | null = null;
  #abortReason: unknown = null;

  constructor(row: ClaimedJob, claim: ClaimFacts) {
    this.row = row;
    this.claim = claim;
  }

  get queue(): string {
    return this.claim.queue;
  }

  get workerId(): string {
    return this.claim.workerId;
  }

  get id(): string {
    return this.row.id;
  }

  get generation(): number {
    return this.row.leaseGeneration;
  }

  get facts(): Processing {
    const { id, type, attempts: attempt, partitionBucket: bucket, headers } = this.row;
    return { id, type, attempt, bucket, headers, queue: this.queue, workerId: this.workerId };
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#abortReason !== null) this.#controller.abort(this.#abortReason);
    }
    return this.#controller.signal;
  }

  /** It has not succeeded, and will not in this attempt: what ran behind it in its key must not count. */
  get failed(): boolean {
    return this.lost || (this.how !== null && this.how !== 'completed');
  }

  /** The id of the job before, unless it is known to be completed. */
  get after(): string | null {
    const { before } = this;
    return before && (!before.#left || before.failed) ? before.id : null;
  }

  /** Resolves when the job has left this process, settled or lost. */
  left(): Promise<void> {
    if (this.#left) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onLeft ??= [];
      this.#onLeft.push(resolve);
    });
  }

  leave(): void {
    this.#left = true;
    // The chain of a long run would otherwise be kept whole by its last job.
    this.before = null;
    for (const resolve of this.#onLeft?.splice(0) ?? []) resolve();
  }

  /** Its signal is aborted, or would be if anybody had asked for it. */
  get aborted(): boolean {
    return this.#abortReason !== null;
  }

  abort(reason: unknown): void {
    if (this.aborted) return;
    this.#abortReason = reason;
    this.#controller?.abort(reason);
    this.attempt?.aborted();
  }
}

/** The part of a handler's context that says which job it is. */
export class JobFacts<Payload> {
  readonly payload: Payload;
  readonly held: LeasedJob;
  readonly #workerLog: Logger;
  #log: Logger | null = null;

  constructor(held: LeasedJob, payload: Payload, workerLog: Logger) {
    this.held = held;
    this.payload = payload;
    this.#workerLog = workerLog;
  }

  get id() {
    return this.held.row.id;
  }
  get type() {
    return this.held.row.type;
  }
  get queue() {
    return this.held.queue;
  }
  get partitionKey() {
    return this.held.row.partitionKey;
  }
  get attempt() {
    return this.held.row.attempts;
  }
  get maxAttempts() {
    return this.held.row.maxAttempts;
  }
  get fenceToken() {
    return this.held.row.leaseGeneration;
  }
  get headers(): Readonly<Record<string, string>> {
    return this.held.row.headers ? JSON.parse(this.held.row.headers) : {};
  }
  get scheduledAt(): Date | null {
    const at = this.headers.holdfast_scheduled_at;
    return at === undefined ? null : new Date(at);
  }
  get createdAt() {
    const { createdAt, cursorAt } = this.held.row;
    return new Date(createdAt ?? cursorAt);
  }
  get signal() {
    return this.held.signal;
  }
  get log() {
    const { id, type, attempt } = this;
    this.#log ??= childLogger(this.#workerLog, { job: id, type, attempt });
    return this.#log;
  }
}
