/**
 * Migration 4: the archive is read once, so that migration 5 need not read it while jobs wait to be completed.
 *
 * Locks: each archive against vacuum and other migrations only. Jobs are completed meanwhile.
 */
import type { Migration } from '../migration.js';

const perQueue = `
ALTER TABLE holdfast.inbox_archive VALIDATE CONSTRAINT inbox_archive_segment_check;
`;

export const archiveValidated: Migration = {
  ...{ id: 4, name: 'archive-validated', breaksBefore: 1 },
  ...{ common: '', perQueue },
};
