/** The migrations in the order in which they run. */
import { engine } from './0001-engine.sql.js';
import type { Migration } from './migration.js';

export const MIGRATIONS: readonly Migration[] = [engine];

export const LATEST = MIGRATIONS.length;
