/** The part of a handler's context that says which job it is. */
import { childLogger, type Logger } from '../../postgres/log/log.js';
import type { LeasedJob } from './leased-job.js';

export class JobFacts<Payload> {
  readonly payload: Payload;
  readonly #job: LeasedJob;
  readonly #workerLog: Logger;
  #log: Logger | null = null;

  constructor(job: LeasedJob, payload: Payload, workerLog: Logger) {
    this.#job = job;
    this.payload = payload;
    this.#workerLog = workerLog;
  }

  get id() {
    return this.#job.row.id;
  }
  get type() {
    return this.#job.row.type;
  }
  get queue() {
    return this.#job.queue;
  }
  get partitionKey() {
    return this.#job.row.partitionKey;
  }
  get attempt() {
    return this.#job.row.attempts;
  }
  get maxAttempts() {
    return this.#job.row.maxAttempts;
  }
  get fenceToken() {
    return this.#job.row.leaseGeneration;
  }
  get headers(): Readonly<Record<string, string>> {
    return this.#job.row.headers ? JSON.parse(this.#job.row.headers) : {};
  }
  get scheduledAt(): Date | null {
    const at = this.headers.holdfast_scheduled_at;
    return at === undefined ? null : new Date(at);
  }
  get createdAt() {
    const { createdAt, cursorAt } = this.#job.row;
    return new Date(createdAt ?? cursorAt);
  }
  get signal() {
    return this.#job.signal;
  }
  get log() {
    const { id, type, attempt } = this;
    this.#log ??= childLogger(this.#workerLog, { job: id, type, attempt });
    return this.#log;
  }
}
