/**
 * Migration 3: finished jobs say in which segment of the archive they are. The segments come with migration 5; until then
 * all of them are in segment 0, and migration 4 proves that.
 *
 * Locks: `queues` and each archive, exclusively, for the moment in which they get a column with a constant default (no
 * rewrite). Nothing is read.
 */
import type { Migration } from '../migration.js';

const common = `
-- By the number of each segment of the archive, since when finished jobs go there. The last one takes them now.
ALTER TABLE holdfast.queues ADD COLUMN archive_segments jsonb NOT NULL DEFAULT '{"0": "-infinity"}'
  CONSTRAINT queues_archive_segments_check CHECK (jsonb_typeof(archive_segments) = 'object');
`;

const perQueue = `
ALTER TABLE holdfast.inbox_archive
  ADD COLUMN segment integer NOT NULL DEFAULT 0,
  ADD CONSTRAINT inbox_archive_segment_check CHECK (segment = 0) NOT VALID;
`;

export const archiveSegment: Migration = {
  ...{ id: 3, name: 'archive-segment', breaksBefore: 1 },
  ...{ common, perQueue },
};
