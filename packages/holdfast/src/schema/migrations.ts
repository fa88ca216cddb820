/** The migrations in the order in which they run, and with the functions all that this code knows of a schema. */
import type { FunctionFile } from './function-file.js';
import { FUNCTIONS } from './functions.js';
import type { Migration } from './migration.js';
import { engine } from './migrations/0001-engine.sql.js';
import { bigFleet } from './migrations/0002-big-fleet.sql.js';
import { archiveSegment } from './migrations/0003-archive-segment.sql.js';
import { archiveValidated } from './migrations/0004-archive-validated.sql.js';
import { archiveSegments } from './migrations/0005-archive-segments.sql.js';
import { pruneIndexes } from './migrations/0006-prune-indexes.sql.js';
import { onDeadLetter } from './migrations/0007-on-dead-letter.sql.js';
import { workflows } from './migrations/0008-workflows.sql.js';
import { uniqueKeys } from './migrations/0009-unique-keys.sql.js';
import { projections } from './migrations/0010-projections.sql.js';
import { webhooks } from './migrations/0011-webhooks.sql.js';

export const MIGRATIONS: readonly Migration[] = [
  engine,
  bigFleet,
  archiveSegment,
  archiveValidated,
  archiveSegments,
  pruneIndexes,
  onDeadLetter,
  workflows,
  uniqueKeys,
  projections,
  webhooks,
];

export const LATEST = MIGRATIONS.length;

export interface Program {
  readonly migrations: readonly Migration[];
  readonly functions: readonly FunctionFile[];
}

export const PROGRAM: Program = { migrations: MIGRATIONS, functions: FUNCTIONS };
