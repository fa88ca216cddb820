/** Claiming under a limit as a worker's statement does, without the worker. */
import { publish } from '../../packages/holdfast/src/claim/permits.js';
import type { Claimed, ClaimedJob, Held } from '../../packages/holdfast/src/claim/take.js';
import type { Limit } from '../../packages/holdfast/src/job/limit.js';
import { putLimit } from '../../packages/holdfast/src/operate/limits.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { claimByTime, heldOf, type TimeOptions } from './claiming.js';
import { INBOX, type TestGround } from './database.js';

/** Of type `step`, unless it says otherwise. What it takes counts under a concurrency only if its worker is registered. */
export const claimStep = (db: TestGround, workerId: string, options: TimeOptions = {}) =>
  claimByTime(db.engine, workerId, { lagMs: 0, ...options });

export const limitStep = (db: TestGround, limit: Partial<Limit> | null, keyed = false) =>
  putLimit(db.engine, INBOX, 'declare', {
    ...{ type: 'step', keyed },
    limit: limit && { concurrency: null, rate: null, ...limit },
  });

/** Workers that live and handle these types: what they hold counts. */
export const register = (
  db: TestGround,
  ids: readonly string[],
  types: readonly string[] = ['step', 'other'],
) =>
  db.rows(
    `INSERT INTO holdfast.workers (id, handles, metadata)
     SELECT w.id, jsonb_build_object('inbox', (SELECT jsonb_object_agg(t.type, 1) FROM unnest($2::text[]) AS t(type))),
       '{"concurrency": 10}'
     FROM unnest($1::text[]) AS w(id)
     ON CONFLICT (id) DO UPDATE SET status = 'alive', handles = excluded.handles`,
    [ids, types],
  );

/**
 * A worker that says how many jobs it holds, as those of this version do: with every claim, and when some have left. `claim`
 * is any claim that takes the figures as `held`.
 */
export class Holder<C extends Claimed, O extends { held?: Held | 'unlimited' }> {
  readonly id: string;
  readonly #db: TestGround;
  readonly #claim: (id: string, options: O) => Promise<C>;
  #jobs: readonly ClaimedJob[] = [];

  constructor(db: TestGround, id: string, claim: (id: string, options: O) => Promise<C>) {
    this.#db = db;
    this.id = id;
    this.#claim = claim;
  }

  get jobs(): readonly ClaimedJob[] {
    return this.#jobs;
  }

  get held(): Record<string, number> {
    const held: Record<string, number> = { '': this.#jobs.length };
    for (const { type } of this.#jobs) held[type] = (held[type] ?? 0) + 1;
    return held;
  }

  async claim(options: Partial<O> = {}): Promise<C> {
    const claimed = await this.#claim(this.id, { ...options, held: this.held } as O);
    this.#jobs = [...this.#jobs, ...claimed.jobs];
    return claimed;
  }

  /** They have left, whoever settled them. */
  async left(jobs: readonly ClaimedJob[]): Promise<void> {
    const ids = new Set(jobs.map(({ id }) => id));
    this.#jobs = this.#jobs.filter(({ id }) => !ids.has(id));
    await publish(this.#db.engine, INBOX, this.id, this.held, ['step', 'other']);
  }

  async complete(jobs: readonly ClaimedJob[]): Promise<void> {
    await complete(this.#db.engine, INBOX, this.id, jobs.map(heldOf));
    await this.left(jobs);
  }
}

/** A claim's clock was read between the two, in milliseconds. */
export interface NotedStart {
  readonly after: number;
  readonly before: number;
}

/** The most of which it is certain that they started within less than this time. */
export function mostWithin(starts: readonly NotedStart[], windowMs: number): number {
  const sorted = starts.toSorted((a, b) => a.before - b.before);
  let most = 0;
  for (const [from, { after }] of sorted.entries()) {
    const end = sorted.findLastIndex(({ before }) => before - after < windowMs);
    most = Math.max(most, end - from + 1);
  }
  return most;
}

export const STARTS = `SELECT (extract(epoch FROM began) * 1000)::float8 AS after,
  (extract(epoch FROM at) * 1000)::float8 AS before FROM claims_noted`;

/** Notes when jobs are claimed, by the database's clock, while the claim still holds the lock of its limit. */
export const NOTE_STARTS = `
CREATE TABLE claims_noted (job uuid, type text, key text, began timestamptz NOT NULL DEFAULT now(),
  at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE FUNCTION note_start() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO claims_noted (job, type, key) VALUES (NEW.id, NEW.type, NEW.limit_key);
  RETURN NULL;
END $$;
CREATE TRIGGER note_start AFTER UPDATE ON holdfast.inbox FOR EACH ROW
  WHEN (NEW.lease_generation > OLD.lease_generation) EXECUTE FUNCTION note_start()`;
