/**
 * Migrating: bring a schema to what this code knows, and say where it stands.
 *
 * Each migration runs in one transaction together with the row that records it, under an advisory lock,
 * so ten processes may start at once: one applies, nine wait and find it done. Migrations only go
 * forward. `checkSchema` is the rule by which a process meets a schema of another age:
 *
 * - older than this code: refuse (SCHEMA_TOO_OLD), because statements would miss columns;
 * - newer than this code: continue, unless a newer migration says that it breaks code of this age
 *   (SCHEMA_TOO_NEW). So the old and the new version of an application run side by side in a deploy.
 */
import { HoldfastError } from '../job/errors.js';
import { hash32 } from '../job/key.js';
import { loadText, quoteName } from '../postgres/names.js';
import type { Queryable } from '../postgres/queryable.js';
import type { Migration } from './migration.js';
import { LATEST, MIGRATIONS } from './migrations.js';

export interface MigrationState {
  readonly id: number;
  readonly name: string;
  /** When it was applied here, or null. */
  readonly appliedAt: Date | null;
  /** False for a migration that a newer version of the code applied and this one does not know. */
  readonly known: boolean;
}

interface AppliedRow {
  id: number;
  name: string;
  breaksBefore: number;
  appliedAt: Date;
}

const records = (schema: string) => `${quoteName(schema)}.migrations`;

async function rows(db: Queryable, text: string, params?: unknown[]) {
  const result = await db.query(text, params);
  return Array.isArray(result) ? result : result.rows;
}

async function applied(db: Queryable, schema: string): Promise<AppliedRow[]> {
  const [found] = await rows(db, 'SELECT to_regclass($1)::text AS table', [records(schema)]);
  if (!found?.table) return [];
  const list = await rows(
    db,
    `SELECT id, name, breaks_before, (extract(epoch FROM applied_at) * 1000)::float8 AS applied_ms FROM ${records(schema)} ORDER BY id`,
  );
  return list.map((row) => ({
    id: Number(row.id),
    name: String(row.name),
    breaksBefore: Number(row.breaks_before),
    appliedAt: new Date(Number(row.applied_ms)),
  }));
}

export async function migrationStates(db: Queryable, schema: string): Promise<MigrationState[]> {
  const done = new Map((await applied(db, schema)).map((row) => [row.id, row]));
  const states: MigrationState[] = MIGRATIONS.map(({ id, name }) => ({
    id,
    name,
    appliedAt: done.get(id)?.appliedAt ?? null,
    known: true,
  }));
  for (const row of done.values()) {
    if (row.id > LATEST) states.push({ ...row, known: false });
  }
  return states;
}

function recordsTable(schema: string): string {
  return `CREATE TABLE IF NOT EXISTS ${records(schema)} (
  id            integer PRIMARY KEY,
  name          text NOT NULL,
  breaks_before integer NOT NULL,
  applied_at    timestamptz NOT NULL DEFAULT now()
);`;
}

function migrationText(migration: Migration, schema: string, queues: readonly string[]): string {
  const parts = [loadText(migration.common, { schema, queue: 'inbox' })];
  for (const queue of queues) parts.push(loadText(migration.perQueue, { schema, queue }));
  const { id, name, breaksBefore } = migration;
  parts.push(
    `INSERT INTO ${records(schema)} (id, name, breaks_before) VALUES (${id}, '${name}', ${breaksBefore});`,
  );
  return parts.join('\n');
}

async function existingQueues(db: Queryable, schema: string, version: number): Promise<string[]> {
  if (version === 0) return ['inbox'];
  const list = await rows(db, `SELECT name FROM ${quoteName(schema)}.queues ORDER BY name`);
  return list.map((row) => String(row.name));
}

/** The statements that `migrate` would run now, as text for a human or another tool to run. */
export async function pendingSql(db: Queryable, schema: string): Promise<string> {
  const done = await applied(db, schema);
  const version = done.length;
  const pending = MIGRATIONS.filter(({ id }) => id > version);
  if (pending.length === 0) return '';
  const queues = await existingQueues(db, schema, version);
  const create = (await schemaExists(db, schema)) ? '' : `CREATE SCHEMA ${quoteName(schema)};\n`;
  const head = `${create}${recordsTable(schema)}`;
  const bodies = pending.map((migration) => migrationText(migration, schema, queues));
  return ['BEGIN ISOLATION LEVEL READ COMMITTED;', head, ...bodies, 'COMMIT;'].join('\n\n');
}

/** A connection on which `migrate` may open transactions: one client, not a pool. */
export async function migrate(client: Queryable, schema: string): Promise<MigrationState[]> {
  const lock = `SELECT pg_advisory_xact_lock(${hash32('holdfast.migrate') | 0}, ${hash32(schema) | 0})`;
  for (;;) {
    // Those that waited for the lock must see what the first one did.
    await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
    try {
      await client.query(lock);
      const version = (await applied(client, schema)).length;
      const next = MIGRATIONS.find(({ id }) => id > version);
      if (next) {
        if (version === 0) await makeSchema(client, schema);
        const queues = await existingQueues(client, schema, version);
        await client.query(migrationText(next, schema, queues));
      }
      await client.query('COMMIT');
      if (!next) return migrationStates(client, schema);
    } catch (error) {
      // The migration's own error is the news; a ROLLBACK that fails means the connection is gone too.
      await client.query('ROLLBACK').catch(() => undefined);
      throw error;
    }
  }
}

async function schemaExists(db: Queryable, schema: string): Promise<boolean> {
  const [found] = await rows(db, 'SELECT to_regnamespace($1)::text AS name', [quoteName(schema)]);
  return found?.name != null;
}

/** A role without CREATE on the database can still migrate into a schema made for it beforehand. */
async function makeSchema(client: Queryable, schema: string): Promise<void> {
  if (!(await schemaExists(client, schema))) {
    await client.query(`CREATE SCHEMA ${quoteName(schema)}`);
  }
  await client.query(recordsTable(schema));
}

export async function checkSchema(db: Queryable, schema: string): Promise<void> {
  const done = await applied(db, schema);
  if (done.length === 0) {
    throw new HoldfastError(
      'SCHEMA_MISSING',
      `The schema "${schema}" has no Holdfast tables, so nothing was done. ` +
        'Run `holdfast migrate`, or call hf.migrate() first.',
    );
  }
  if (done.length < LATEST) {
    throw new HoldfastError(
      'SCHEMA_TOO_OLD',
      `The schema "${schema}" stands at migration ${done.length} and this version needs ${LATEST}, ` +
        'so nothing was done. Run `holdfast migrate` with this version first.',
    );
  }
  const breaking = done.find(({ breaksBefore }) => breaksBefore > LATEST);
  if (breaking) {
    throw new HoldfastError(
      'SCHEMA_TOO_NEW',
      `Migration ${breaking.id} (${breaking.name}) of the schema "${schema}" cannot be shared with ` +
        `this version, which knows migrations up to ${LATEST}. Nothing was done: upgrade holdfast.`,
    );
  }
}
