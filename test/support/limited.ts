/** Claiming under a limit as a worker's statement does, without the worker. */
import type { Limit } from '../../src/job/limit.js';
import { putLimit } from '../../src/operate/limits.js';
import { claimByTime, type TimeOptions } from './claiming.js';
import { INBOX, type TestGround } from './database.js';

/** Of type `step`, unless it says otherwise. The worker is not registered, unless the test does it. */
export const claimStep = (db: TestGround, workerId: string, options: TimeOptions = {}) =>
  claimByTime(db.engine, workerId, { lagMs: 0, ...options });

export const limitStep = (db: TestGround, limit: Partial<Limit> | null, keyed = false) =>
  putLimit(db.engine, INBOX, 'declare', {
    ...{ type: 'step', keyed },
    limit: limit && { concurrency: null, rate: null, ...limit },
  });

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
