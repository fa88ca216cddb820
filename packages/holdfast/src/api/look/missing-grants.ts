/**
 * Names the grants that are missing when a reading is refused: for the figures of a scrape, and in the log, the same once
 * in ten minutes.
 */
import type pg from 'pg';
import { reading } from '../../inspect/reading/reading.js';
import { grantTexts, type MissingGrant, rightsOf } from '../../inspect/reading/rights.js';
import type { Logger } from '../../postgres/log/log.js';

const AGAIN_MS = 600_000;

/** What it returns rejects with `denied` if no grant is missing: then something else was refused. */
export function grantNamer(
  pool: () => pg.Pool,
  schema: string,
  log: Logger,
): (denied: unknown) => Promise<readonly MissingGrant[]> {
  let said = '';
  let saidAt = 0;
  return async (denied) => {
    const rights = await reading(pool(), (db) => rightsOf(db, schema, 'viewer'));
    if (rights.missing.length === 0) throw denied;
    const grants = grantTexts(schema, rights);
    const now = performance.now();
    if (grants.join() !== said || now - saidAt >= AGAIN_MS) {
      [said, saidAt] = [grants.join(), now];
      log.warn({ user: rights.user, grants }, 'grants are missing, so metrics are incomplete');
    }
    return rights.missing;
  };
}
