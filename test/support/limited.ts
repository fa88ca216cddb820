/** Claiming under a limit as a worker's statement does, without the worker. */
import { claimLimited, type LimitedClaimRequest } from '../../src/claim/claim-limited.js';
import type { Limit } from '../../src/job/limit.js';
import { putLimit } from '../../src/operate/limits.js';
import { FRONT, terms } from './claiming.js';
import { INBOX, type TestGround } from './database.js';

/** Of type `step`, unless it says otherwise. */
export const claimStep = (
  db: TestGround,
  workerId: string,
  options: Partial<LimitedClaimRequest> = {},
) =>
  claimLimited(db.engine, INBOX, {
    ...terms(workerId),
    ...{ ofType: 'step', cursors: FRONT, lagMs: 0, suspects: false, ...options },
  });

export const limitStep = (db: TestGround, limit: Partial<Limit> | null, keyed = false) =>
  putLimit(db.engine, INBOX, 'declare', {
    ...{ type: 'step', keyed },
    limit: limit && { concurrency: null, rate: null, ...limit },
  });

/** The most that start in any window of this length. */
export function mostWithin(times: readonly number[], windowMs: number): number {
  const sorted = [...times].sort((a, b) => a - b);
  let [most, from] = [0, 0];
  for (const [to, time] of sorted.entries()) {
    while (time - (sorted[from] as number) >= windowMs) from++;
    most = Math.max(most, to - from + 1);
  }
  return most;
}

/** Notes when jobs are claimed, by the database's clock, while the claim still holds the lock of its limit. */
export const NOTE_STARTS = `
CREATE TABLE claims_noted (job uuid, type text, key text, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE FUNCTION note_start() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO claims_noted (job, type, key) VALUES (NEW.id, NEW.type, NEW.limit_key);
  RETURN NULL;
END $$;
CREATE TRIGGER note_start AFTER UPDATE ON holdfast.inbox FOR EACH ROW
  WHEN (NEW.lease_generation > OLD.lease_generation) EXECUTE FUNCTION note_start()`;
