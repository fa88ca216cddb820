/**
 * The gauges that come from the database, read at a scrape and not before. One reading serves all scrapes within `freshMs`.
 * When the database does not answer in time, nothing of an earlier reading is shown: only `holdfast_database_up` is left,
 * at 0, and what this process has counted. One that answers, but not with the figures of a queue (its table is locked, a
 * right is missing, they take too long), is up; `holdfast_scrape_error` says why.
 */
import type { Gauges } from '../inspect/queue/gauges.js';
import { isOutage } from '../postgres/connect/transient.js';
import { DATABASE_METRICS } from './catalogue.js';
import type { Families, NumberCell, Registry } from './registry.js';

interface DatabaseOptions {
  readonly read: () => Promise<Gauges>;
  /** Resolves if the database answers a small question. */
  readonly answers: () => Promise<unknown>;
  readonly freshMs: number;
  readonly timeoutMs: number;
}

export class DatabaseGauges {
  readonly #options: DatabaseOptions;
  readonly #families: Families<typeof DATABASE_METRICS>;
  #reading: Promise<void> | null = null;
  #underWay = false;
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(registry: Registry, options: DatabaseOptions) {
    this.#options = options;
    this.#families = registry.all(DATABASE_METRICS);
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
      families.database_up.at().set(answer.up ? 1 : 0);
      families.scrape_error.at('', answer.name).set(1);
      return;
    }
    families.database_up.at().set(1);
    for (const { queue, error, only } of answer.unread ?? []) {
      const { name } = scrapeError(error);
      families.scrape_error.at(queue, only ? `${only}_${name}` : name).set(1);
    }
    this.#show(answer);
  }

  /** What is still under way from an earlier scrape is not asked a second time beside it. */
  async #ask(): Promise<Gauges | ScrapeError> {
    if (this.#underWay) return this.#slow();
    this.#underWay = true;
    const answer = this.#options
      .read()
      .catch(scrapeError)
      .finally(() => {
        this.#underWay = false;
      });
    return (await within(this.#options.timeoutMs, answer)) ?? this.#slow();
  }

  /** The figures take too long. A database that still answers is up. */
  async #slow(): Promise<ScrapeError> {
    const asked = this.#options.answers().then(
      () => true,
      () => false,
    );
    return (await within(SMALL_MS, asked)) ? { name: 'slow', up: true } : NO_ANSWER;
  }

  /** Cells are added to: beyond a number of queues or types they share one. */
  #show(gauges: Gauges): void {
    const { queues, workers, unhandled, missingGrants, oldestHeartbeatMs } = gauges;
    const families = this.#families;
    for (const { queue, type, concurrency, running, waiting } of gauges.limits) {
      const of = [queue, type ?? '*'] as const;
      if (concurrency !== null) families.limit_places.at(...of).add(concurrency);
      families.limit_running.at(...of).add(running);
      if (waiting !== null) families.limit_waiting.at(...of).add(waiting);
    }
    for (const { queue, reason, jobs } of gauges.waiting)
      families.jobs_waiting.at(queue, reason).add(jobs);
    for (const { queue, workflow, state, runs, oldestMs } of gauges.runs) {
      families.runs.at(queue, workflow, state).add(runs);
      if (oldestMs !== null)
        largest(families.oldest_wait_age_seconds.at(queue, workflow), oldestMs / 1000);
    }
    for (const one of gauges.projections) {
      const of = [one.name, String(one.version), one.state] as const;
      families.projection_lag_events.at(...of).add(one.events);
      largest(families.projection_lag_seconds.at(...of), one.lagMs / 1000);
      families.projection_stopped_keys.at(...of).add(one.stopped);
    }
    for (const [status, count] of Object.entries(workers ?? {}))
      families.workers.at(status).set(count);
    for (const { queue, type, jobs } of unhandled)
      families.jobs_unhandled.at(queue, type).add(jobs);
    for (const { table } of missingGrants) families.grant_missing.at(table).set(1);
    if (oldestHeartbeatMs !== null)
      families.worker_heartbeat_age_seconds.at().set(oldestHeartbeatMs / 1000);
    for (const one of queues) {
      const { queue, maintenanceAgeMs } = one;
      families.jobs_pending.at(queue).add(one.pending);
      if (one.due !== null) families.jobs_due.at(queue).add(one.due);
      families.jobs_processing.at(queue).add(one.processing);
      families.jobs_expired.at(queue).add(one.expired);
      families.jobs_dead_letter.at(queue).add(one.deadLetters);
      families.jobs_on_hold.at(queue).add(one.onHold);
      largest(families.queue_stopped_seconds.at(queue), one.stoppedMs / 1000);
      largest(families.oldest_pending_age_seconds.at(queue), one.oldestPendingMs / 1000);
      largest(families.jobs_estimated.at(queue), one.estimated ? 1 : 0);
      largest(families.schedule_overdue_seconds.at(queue), one.scheduleOverdueMs / 1000);
      largest(families.queue_paused.at(queue), one.paused ? 1 : 0);
      if (maintenanceAgeMs !== null)
        largest(families.maintenance_age_seconds.at(queue), maintenanceAgeMs / 1000);
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

/** Why figures are missing, in a word that can be a label; by code of Holdfast or of Postgres. */
const NAMES: Readonly<Record<string, string>> = {
  LOCKED: 'locked',
  '55P03': 'locked',
  '57014': 'timeout',
  '42501': 'permission_denied',
  '42P01': 'schema_missing',
  '3F000': 'schema_missing',
  '42703': 'schema_too_old',
  '53300': 'too_many_connections',
  '28P01': 'login_refused',
  '28000': 'login_refused',
};

interface ScrapeError {
  readonly name: string;
  /** The database answered, though not with figures. */
  readonly up: boolean;
}

function scrapeError(error: unknown): ScrapeError {
  const code = (error as { code?: unknown } | null)?.code;
  const known = typeof code === 'string' ? NAMES[code] : undefined;
  // A refused login does not tell whether the database works for others.
  const away = isOutage(error) || known === 'login_refused';
  if (known) return { name: known, up: !away };
  if (away) return { name: 'unreachable', up: false };
  // A class of errors has few members; a code of Postgres is short and says more than "other".
  if (typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code)) return { name: code, up: true };
  return { name: 'other', up: false };
}

/** For a small question. */
const SMALL_MS = 1_000;

const NO_ANSWER: ScrapeError = { name: 'no_answer', up: false };
