/**
 * Migration 2.
 *
 * Locks: `queues`, exclusively, for the moment in which it gets a column with a constant default (no rewrite).
 * Queues: an index is built beside all traffic. Then the table of the queue is locked, exclusively, for the moment in which
 * that index becomes the primary key: no row is read.
 */
import type { Migration, OnlineStep } from '../migration.js';

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

/** An id is one job. Before, the bucket of its key was part of the primary key: one id could be two jobs with two keys. */
const oneJobAnId: OnlineStep = {
  text: 'CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS inbox_job_pkey ON holdfast.inbox (id)',
  swap: {
    drops: 'inbox_id_pkey',
    text: `
ALTER TABLE holdfast.inbox
  DROP CONSTRAINT inbox_id_pkey,
  ADD CONSTRAINT inbox_job_pkey PRIMARY KEY USING INDEX inbox_job_pkey;
`,
  },
};

export const bigFleet: Migration = {
  id: 2,
  name: 'big-fleet',
  breaksBefore: 1,
  common,
  perQueue,
  online: [oneJobAnId],
};
