/**
 * What the journeys of one row share: the verbs of the product on one job, called by hand, and the row as it stands.
 * Nothing here decides anything: each function calls the verb that a worker calls, and tells what came back.
 */

import { bucketOf } from 'holdfast';
import type { Executor, NewJob } from 'holdfast/internal';
import {
  claimSuspects,
  claimTime,
  complete,
  frontLines,
  lockKeyOf,
  register,
} from 'holdfast/internal';
import { EPOCH } from '../simulation/clock.js';
import { type Act, type Journey, LEASE_MS, type RowText, type Tone } from './frame.js';
import { NAMES, type Stage, seconds } from './stage.js';

const TYPE = 'send_receipt';
const KEY = 'order:9182';

type JobRun = Pick<Held, 'id' | 'generation'>;
/** A job as a worker holds it after its claim. */
export interface Held {
  readonly id: string;
  readonly generation: number;
  readonly attempt: number;
  readonly crashes: number;
}

export interface RowState {
  /** Of the queue, or of the archive; null: there is none. */
  readonly row: RowText | null;
  readonly table: 'inbox' | 'inbox_archive';
  /** How long its lease lasts; null: it has none. */
  readonly leaseMs: number | null;
  /** How long until it is due; null: it does not wait. */
  readonly dueMs: number | null;
}

const COLUMNS = `id, type, partition_key, partition_bucket, status, attempts, max_attempts, lease_generation,
  claimed_by, last_error`;
const LIVE = `SELECT ${COLUMNS}, crashes, available_at, claimed_at, lease_expires_at, idempotency_key,
  (extract(epoch FROM lease_expires_at) * 1000)::bigint AS lease_ms,
  CASE WHEN available_at < 'infinity' THEN (extract(epoch FROM available_at) * 1000)::bigint END AS due_ms
  FROM holdfast.inbox WHERE id = $1::uuid`;
const ARCHIVED = `SELECT ${COLUMNS}, completed_at FROM holdfast.inbox_archive WHERE id = $1::uuid`;

export class Desk {
  readonly stage: Stage;
  readonly #workers = new Map<string, Executor>();
  readonly #claims = new Map<string, number>();

  constructor(stage: Stage) {
    this.stage = stage;
  }

  /** A worker's way to the database; who has none is registered first. */
  async worker(id: string): Promise<Executor> {
    let db = this.#workers.get(id);
    if (!db) {
      db = this.stage.executor(id);
      this.#workers.set(id, db);
      const handles = { inbox: { [TYPE]: 1 } };
      await register(db, NAMES, { id, lockKey: lockKeyOf(id), handles, metadata: {} });
    }
    return db;
  }

  producer(): Executor {
    return this.stage.executor('producer');
  }

  receipt(maxAttempts: number, idempotencyKey: string | null): NewJob {
    return {
      ...{ id: this.stage.newId(), type: TYPE, version: 1, key: KEY, group: null },
      ...{ bucket: bucketOf(KEY), payload: '{"orderId": 9182}', headers: null, priority: 2 },
      ...{ maxAttempts, delayMs: 0, runAt: null, idempotencyKey, unique: null, limitKey: null },
    };
  }

  /** The claim of a worker with one free handler; `suspect`: of a job that crashed its workers. */
  async claim(
    workerId: string,
    { leaseMs = LEASE_MS, suspect = false } = {},
  ): Promise<Held | null> {
    const db = await this.worker(workerId);
    const number = (this.#claims.get(workerId) ?? 0) + 1;
    this.#claims.set(workerId, number);
    const terms = {
      ...{ workerId, leaseMs, number, finished: [], limit: 1 },
      versions: { [TYPE]: 1 },
    };
    const { jobs } = suspect
      ? await claimSuspects(db, NAMES, terms)
      : await claimTime(db, NAMES, {
          ...{ ...terms, lines: frontLines(terms.versions, 1) },
          ...{ lagMs: 0, ask: false },
        });
    const [job] = jobs;
    if (!job) return null;
    const { id, leaseGeneration: generation, attempts: attempt, crashes } = job;
    return { id, generation, attempt, crashes };
  }

  /** How many jobs it completed: one, or none if it is no longer this worker's. */
  async complete(workerId: string, { id, generation }: JobRun): Promise<number> {
    const db = await this.worker(workerId);
    return (await complete(db, NAMES, workerId, [{ id, generation }])).length;
  }

  /** The row, from where it is now. */
  state(id: string | null): RowState {
    const none: RowState = { row: null, table: 'inbox', leaseMs: null, dueMs: null };
    if (id === null) return none;
    const [found] = this.stage.look(LIVE, [id]);
    if (!found) {
      const [row] = this.stage.look(ARCHIVED, [id]);
      return row ? { ...none, row, table: 'inbox_archive' } : none;
    }
    const { lease_ms: lease, due_ms: due, ...row } = found;
    const left = (at: string | null | undefined) =>
      at == null ? null : Math.max(0, Number(at) - EPOCH - this.stage.now);
    return {
      ...{ row, table: 'inbox', leaseMs: left(lease) },
      dueMs: row.status === 'pending' ? left(due) : null,
    };
  }
}

/** A journey of one row by hand. Each act is a method; one that does not fit is refused, and time passes. */
export abstract class RowJourney implements Journey {
  protected readonly stage: Stage;
  protected readonly desk: Desk;
  protected id: string | null = null;

  constructor(stage: Stage) {
    this.stage = stage;
    this.desk = new Desk(stage);
  }

  abstract begin(): Promise<void>;
  /** What can be done now. */
  protected abstract possible(): string[];
  protected abstract state(): object;
  /** What time has brought. */
  protected abstract news(row: RowState): string;

  async act(act: Act): Promise<void> {
    if (this.possible().includes(act.do)) await this[act.do as 'wait'](act);
    else this.say(`“${act.do}” does not fit now, so nothing ran.`, 'refused');
  }

  async wait(act: Act): Promise<void> {
    await this.advance(Number(act.ms ?? 1_000));
  }

  async advance(ms: number): Promise<void> {
    await this.stage.clock.runUntil(this.stage.now + ms);
    this.say(`${seconds(ms)} went by. ${this.news(this.row)}`);
  }

  protected get row(): RowState {
    return this.desk.state(this.id);
  }

  protected say(text: string, tone: Tone = 'plain'): void {
    this.stage.frame(text, { ...this.row, possible: this.possible(), ...this.state() }, tone);
  }
}
