/** The part of a handler's context that says which job it is. */
import { childLogger, type Logger } from '../../postgres/log.js';
import type { LeasedJob } from './leased-job.js';

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
