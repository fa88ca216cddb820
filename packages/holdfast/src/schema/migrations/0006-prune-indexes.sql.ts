/**
 * Migration 6: idempotency keys and effect markers are found by their age through B-trees. A block range never forgets the
 * oldest row that it had: once pages are used again, each round of maintenance read both tables whole.
 *
 * Locks: none. The indexes are made and dropped beside those who write.
 */
import type { Migration } from '../migration.js';

const online = [
  `CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_idempotency_prune_idx ON holdfast.inbox_idempotency (expires_at)`,
  `DROP INDEX CONCURRENTLY IF EXISTS holdfast.inbox_idempotency_expires_idx`,
  `CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_effects_prune_idx ON holdfast.inbox_effects (created_at)`,
  `DROP INDEX CONCURRENTLY IF EXISTS holdfast.inbox_effects_created_idx`,
].map((text) => ({ text }));

export const pruneIndexes: Migration = {
  ...{ id: 6, name: 'prune-indexes', breaksBefore: 1 },
  ...{ common: '', perQueue: '', online },
};
