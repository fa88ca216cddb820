/**
 * Migration 9: a job and its row in the archive keep the unique key, so that a replay takes it again at any time. NULL where
 * there is none: that is a bit in a bitmap that every row has.
 *
 * Locks: each queue's table and its archive, exclusively, for the moment in which they get a column without a default (no
 * rewrite). Jobs that were enqueued before it have their key in `inbox_unique` only, as before.
 */
import type { Migration } from '../migration.js';

const perQueue = `
ALTER TABLE holdfast.inbox ADD COLUMN unique_key text;
ALTER TABLE holdfast.inbox_archive ADD COLUMN unique_key text;
`;

export const uniqueKeys: Migration = {
  ...{ id: 9, name: 'unique-keys', breaksBefore: 1 },
  ...{ common: '', perQueue },
};
