/** The migrations in the order in which they run. */
import { engine } from './0001-engine.sql.js';
import { fleet } from './0002-fleet.sql.js';
import type { Migration } from './migration.js';

export const MIGRATIONS: readonly Migration[] = [engine, fleet];

export const LATEST = MIGRATIONS.length;
