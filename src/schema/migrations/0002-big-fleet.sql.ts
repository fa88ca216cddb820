/**
 * Migration 2.
 *
 * Locks: `queues`, exclusively, for the moment in which it gets a column with a constant default (no rewrite).
 * Queues: none.
 */
import type { Migration } from '../migration.js';

const common = `
-- Which text each file of src/schema/functions has here.
CREATE TABLE holdfast.functions (
  name       text PRIMARY KEY,
  checksum   text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
);

-- Up to which migration the queue has been brought. Code that knows migration 1 only makes queues without saying it.
ALTER TABLE holdfast.queues ADD COLUMN migration integer NOT NULL DEFAULT 1;
`;

const perQueue = '';

export const bigFleet: Migration = { id: 2, name: 'big-fleet', breaksBefore: 1, common, perQueue };
