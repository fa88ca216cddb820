/**
 * Migrating: bring a schema to what this code knows, and say where it stands.
 *
 * Each step (plan.ts) runs in one transaction together with the row that records it, under an advisory lock,
 * so ten processes may start at once: one applies, nine wait and find it done. A step gives up after a few seconds
 * if it does not get its locks, because everybody else would wait behind it; then it is tried again. Migrations only go
 * forward. `checkSchema` is the rule by which a process meets a schema of another age:
 *
 * - older than this code: refuse (SCHEMA_TOO_OLD), because statements would miss columns;
 * - newer than this code: continue, unless a newer migration says that it breaks code of this age
 *   (SCHEMA_TOO_NEW). So the old and the new version of an application run side by side in a deploy.
 */
import { HoldfastError } from '../job/errors/errors.js';
import { hash32 } from '../job/key.js';
import { quoteName } from '../postgres/names.js';
import type { Queryable } from '../postgres/queryable.js';
import { textArray } from '../postgres/statement.js';
import { duplicateIds } from './duplicates.js';
import { LATEST, MIGRATIONS, PROGRAM, type Program } from './migrations.js';
import { plan, type Step } from './plan.js';
import { applied, readState, rows } from './state.js';

/** A migration of the schema, and whether it was applied. */
export interface MigrationState {
  readonly id: number;
  readonly name: string;
  /** When it was applied here, or null. */
  readonly appliedAt: Date | null;
  /** False for a migration that a newer version of the code applied and this one does not know. */
  readonly known: boolean;
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

/** Queues are made and dropped under the lock that migrations take. */
export const migrationLock = (schema: string) =>
  `SELECT pg_advisory_xact_lock(${hash32('holdfast.migrate') | 0}, ${hash32(schema) | 0})`;

const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED';
/** For the tables, not for the advisory lock, which others may hold for as long as they migrate. */
const LOCK_TIMEOUT = `SET LOCAL lock_timeout = '3s'`;

/** The statements that `migrate` would run now, as text for a human or another tool to run. */
export async function pendingSql(
  db: Queryable,
  schema: string,
  program: Program = PROGRAM,
): Promise<string> {
  const steps = plan(await readState(db, schema, program), schema, program);
  const texts = steps.map(({ what, text, online }) =>
    online
      ? `-- ${what}. Outside of a transaction.\n${text}`
      : [
          `${BEGIN};\n-- ${what}.`,
          `${migrationLock(schema)};`,
          `${LOCK_TIMEOUT};`,
          text,
          'COMMIT;',
        ].join('\n'),
  );
  return texts.join('\n\n');
}

/**
 * Locks that a step did not get, deadlocks, and an autovacuum that wrote the same row of the catalog ("tuple concurrently
 * updated"): a step is tried again, so often and no more.
 */
const RETRIED = new Set(['55P03', '40P01', 'XX000']);
const MOST_TRIES = 20;

/** A connection on which `migrate` may open transactions: one client, not a pool. */
export async function migrate(
  client: Queryable,
  schema: string,
  program: Program = PROGRAM,
): Promise<MigrationState[]> {
  const next = async (): Promise<Step | undefined> =>
    plan(await readState(client, schema, program), schema, program)[0];
  let tries = 0;
  for (;;) {
    const step = await next();
    if (!step) return migrationStates(client, schema);
    try {
      if (step.online) await client.query(step.text);
      else await inLock(client, schema, next);
      tries = 0;
    } catch (error) {
      if (step.queue && (error as { code?: unknown }).code === '23505')
        throw await duplicateIds(client, schema, step.queue, error);
      tries += 1;
      if (tries >= MOST_TRIES || !RETRIED.has(String((error as { code?: unknown }).code)))
        throw error;
      await client.query('SELECT pg_sleep(0.5)');
    }
  }
}

/** Those that waited for the lock must see what the first one did. */
async function inLock(
  client: Queryable,
  schema: string,
  next: () => Promise<Step | undefined>,
): Promise<void> {
  await client.query(BEGIN);
  try {
    await client.query(migrationLock(schema));
    const step = await next();
    if (step && !step.online) {
      await client.query(LOCK_TIMEOUT);
      await client.query(step.text);
    }
    await client.query('COMMIT');
  } catch (error) {
    // The migration's own error is the news; a ROLLBACK that fails means the connection is gone too.
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

/** `queues`: those that the caller needs. An older program may have made one since the schema was migrated. */
export async function checkSchema(
  db: Queryable,
  schema: string,
  queues: readonly string[] = [],
): Promise<void> {
  const done = await applied(db, schema);
  if (done.length === 0) {
    throw new HoldfastError(
      'SCHEMA_MISSING',
      `The schema "${schema}" has no Holdfast tables, so nothing was done. ` +
        'Run `holdfast migrate`, or call hf.migrate() first.',
    );
  }
  if (done.length < LATEST) throw tooOld(`The schema "${schema}"`, done.length);
  const breaking = done.find(({ breaksBefore }) => breaksBefore > LATEST);
  if (breaking) {
    throw new HoldfastError(
      'SCHEMA_TOO_NEW',
      `Migration ${breaking.id} (${breaking.name}) of the schema "${schema}" cannot be shared with ` +
        `this version, which knows migrations up to ${LATEST}. Nothing was done: upgrade holdfast.`,
    );
  }
  if (queues.length === 0) return;
  const [late] = await rows(
    db,
    `SELECT name, migration FROM ${quoteName(schema)}.queues WHERE migration < $1::integer AND name = ANY ($2::text[])`,
    [LATEST, textArray(queues)],
  );
  if (late) throw tooOld(`The queue "${late.name}"`, Number(late.migration));
}

const tooOld = (what: string, version: number) =>
  new HoldfastError(
    'SCHEMA_TOO_OLD',
    `${what} stands at migration ${version} and this version needs ${LATEST}, ` +
      'so nothing was done. Run `holdfast migrate` with this version first.',
  );
