/**
 * The gauges that come from the database, read when somebody scrapes and not before.
 *
 * One reading serves all scrapes that come within `freshMs` of it, so many scrapers cost the database no
 * more than one. When it does not answer, or not in time, nothing of an earlier reading is shown: only
 * `holdfast_database_up` is left, at 0, and what this process has counted itself. A database that answers, but not
 * with the figures of a queue (its table is locked, a right is missing), is up; `holdfast_scrape_error` says why.
 */
import type { Gauges } from '../inspect/queue/gauges.js';
import { DATABASE_METRICS } from './catalogue.js';
import type { Family, NumberCell, Registry } from './registry.js';
import { NO_ANSWER, type ScrapeError, scrapeError } from './scrape-errors.js';

export interface DatabaseOptions {
  readonly read: () => Promise<Gauges>;
  readonly freshMs: number;
  readonly timeoutMs: number;
}

type Families = Record<keyof typeof DATABASE_METRICS, Family<NumberCell>>;

export class DatabaseGauges {
  readonly #options: DatabaseOptions;
  readonly #families: Families;
  #reading: Promise<void> | null = null;
  #underWay = false;
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(registry: Registry, options: DatabaseOptions) {
    this.#options = options;
    this.#families = Object.fromEntries(
      Object.entries(DATABASE_METRICS).map(([key, definition]) => [
        key,
        registry.gauge(definition),
      ]),
    ) as Families;
  }

  /** Never rejects: a database that is away is a fact to show. */
  refresh(): Promise<void> {
    if (this.#reading) return this.#reading;
    if (performance.now() - this.#readAt < this.#options.freshMs) return Promise.resolve();
    this.#reading = this.#read().finally(() => {
      this.#reading = null;
      this.#readAt = performance.now();
    });
    return this.#reading;
  }

  async #read(): Promise<void> {
    const answer = await this.#ask();
    const families = this.#families;
    for (const family of Object.values(families)) family.clear();
    if ('name' in answer) {
      families.up.at().set(answer.up ? 1 : 0);
      families.scrapeError.at('', answer.name).set(1);
      return;
    }
    families.up.at().set(1);
    for (const { queue, error, only } of answer.unread ?? []) {
      const { name } = scrapeError(error);
      families.scrapeError.at(queue, only ? `${only}_${name}` : name).set(1);
    }
    this.#show(answer);
  }

  /** What is still under way from an earlier scrape is not asked a second time beside it. */
  async #ask(): Promise<Gauges | ScrapeError> {
    if (this.#underWay) return NO_ANSWER;
    this.#underWay = true;
    const answer = this.#options
      .read()
      .catch(scrapeError)
      .finally(() => {
        this.#underWay = false;
      });
    return (await within(this.#options.timeoutMs, answer)) ?? NO_ANSWER;
  }

  #show(gauges: Gauges): void {
    const { queues, workers, unhandled, missingGrants, oldestHeartbeatMs } = gauges;
    const families = this.#families;
    for (const { queue, type, concurrency, running, waiting } of gauges.limits) {
      const of = [queue, type ?? '*'] as const;
      // Added: beyond a number of types they share a cell.
      if (concurrency !== null) families.limitPlaces.at(...of).add(concurrency);
      families.limitRunning.at(...of).add(running);
      if (waiting !== null) families.limitWaiting.at(...of).add(waiting);
    }
    for (const { queue, reason, jobs } of gauges.waiting)
      families.waiting.at(queue, reason).add(jobs);
    for (const [status, count] of Object.entries(workers ?? {}))
      families.workers.at(status).set(count);
    // Added: beyond a number of types they share a cell.
    for (const { queue, type, jobs } of unhandled) families.unhandled.at(queue, type).add(jobs);
    for (const { table } of missingGrants) families.missingGrant.at(table).set(1);
    if (oldestHeartbeatMs !== null) families.workerAge.at().set(oldestHeartbeatMs / 1000);
    for (const one of queues) {
      // Added: beyond a number of queues they share a cell.
      families.pending.at(one.queue).add(one.pending);
      if (one.due !== null) families.due.at(one.queue).add(one.due);
      families.processing.at(one.queue).add(one.processing);
      families.expired.at(one.queue).add(one.expired);
      families.deadLetters.at(one.queue).add(one.deadLetters);
      largest(families.oldestPending.at(one.queue), one.oldestPendingMs / 1000);
      largest(families.estimated.at(one.queue), one.estimated ? 1 : 0);
      largest(families.scheduleOverdue.at(one.queue), one.scheduleOverdueMs / 1000);
      largest(families.paused.at(one.queue), one.paused ? 1 : 0);
      if (one.maintenanceAgeMs !== null) {
        largest(families.maintenanceAge.at(one.queue), one.maintenanceAgeMs / 1000);
      }
    }
  }
}

/** Where several share a cell, the worst of them. */
const largest = (cell: NumberCell, value: number) => cell.set(Math.max(cell.value, value));

async function within<Value>(ms: number, answer: Promise<Value>): Promise<Value | null> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), ms);
  });
  const first = await Promise.race([answer, limit]);
  clearTimeout(timer);
  return first;
}
