/**
 * Jobs of another queue: each is written once, however often it is brought.
 *
 * Its import key stands for it as an idempotency key does, in a row of its own: the key of its own that it had there
 * stays free for what it means, so that a producer that enqueues the same thing here finds it. Two jobs may have shared
 * a key there; both were accepted, so the later one is written without it. Jobs keep the order in which they are given.
 * Attempts that were made there count here.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, plainArray, statement, text, textArray } from '../postgres/statement.js';
import { insertWithKeys, type NewJob } from './insert.js';
import { insertFolded } from './unique.js';

export interface Imported {
  readonly job: NewJob;
  /** Such as `import:pg-boss:8a1f…`. */
  readonly importKey: string;
  readonly attempts: number;
  readonly lastError: string | null;
  readonly dead: boolean;
}

/** `known`: an earlier import wrote it. `folded`: its own key stands for a job that was enqueued here. */
export type ImportOutcome = 'written' | 'known' | 'folded';

export const takeImportKeys = statement({
  name: 'take_import_keys',
  text: `
INSERT INTO holdfast.inbox_idempotency AS k (key, job_id, fingerprint, expires_at)
SELECT i.key, i.job_id, '\\x', now() + q.idempotency_retention
FROM unnest($1::text[], $2::uuid[]) AS i(key, job_id), holdfast.queues AS q
WHERE q.name = 'inbox'
ORDER BY i.key
ON CONFLICT (key) DO NOTHING
RETURNING k.key`,
  columns: { key: text },
});

export const knownKeys = statement({
  name: 'known_import_keys',
  text: 'SELECT k.key FROM holdfast.inbox_idempotency AS k WHERE k.key = ANY ($1::text[])',
  columns: { key: text },
});

export const markImported = statement({
  name: 'mark_imported',
  text: `
UPDATE holdfast.inbox AS i
SET attempts = m.attempts, last_error = m.error,
    status = CASE WHEN m.dead THEN 'dead_letter' ELSE i.status END,
    available_at = CASE WHEN m.dead THEN 'infinity' ELSE i.available_at END,
    parked = m.dead AND (SELECT q.ordering <> 'key_strict' FROM holdfast.queues AS q WHERE q.name = 'inbox')
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::boolean[]) AS m(id, attempts, error, dead)
WHERE i.id = m.id AND i.status = 'pending'
RETURNING true AS marked`,
  columns: { marked: bool },
});

/** Needs a transaction. One outcome for each job, in their order. */
export async function writeImported(
  db: Executor,
  names: Names,
  jobs: readonly Imported[],
): Promise<ImportOutcome[]> {
  const taken = await take(
    db,
    names,
    jobs.map(({ importKey, job }) => [importKey, job.id]),
  );
  const fresh = await withFreeKeys(
    db,
    names,
    jobs.filter(({ importKey }) => taken.has(importKey)),
  );
  const written = new Set<string>();
  for (const run of runsOf(fresh)) {
    const outcomes = run[0]?.unique
      ? await insertFolded(db, names, run)
      : await insertWithKeys(db, names, run, true);
    for (const [n, { id, deduplicated }] of outcomes.entries())
      if (!deduplicated && run[n]?.id === id) written.add(id);
  }
  const own = fresh.filter((job) => written.has(job.id) && ofImport(job) !== null);
  await take(
    db,
    names,
    own.map((job) => [ofImport(job) as string, job.id]),
  );
  await mark(
    db,
    names,
    jobs.filter(({ job }) => written.has(job.id)),
  );
  return jobs.map(({ importKey, job }) =>
    written.has(job.id) ? 'written' : taken.has(importKey) ? 'folded' : 'known',
  );
}

/** Says of an idempotency key, or a unique one, that it came with an imported job. */
function ofImport({ idempotencyKey, unique, type }: NewJob): string | null {
  if (unique) return `import:of unique:${type}:${unique.key}`;
  return idempotencyKey === null ? null : `import:of:${idempotencyKey}`;
}

async function take(
  db: Executor,
  names: Names,
  keys: readonly (readonly [key: string, id: string])[],
): Promise<Set<string>> {
  if (keys.length === 0) return new Set();
  const params = [textArray(keys.map(([key]) => key)), plainArray(keys.map(([, id]) => id))];
  return new Set((await db.run(takeImportKeys, names, params)).map(({ key }) => key));
}

/** Without a key that an imported job has already, of this batch or of an earlier one. */
async function withFreeKeys(
  db: Executor,
  names: Names,
  jobs: readonly Imported[],
): Promise<NewJob[]> {
  const keyed = jobs.filter(({ job }) => ofImport(job) !== null);
  const asked = textArray(keyed.map(({ job }) => ofImport(job)));
  const rows = keyed.length > 0 ? await db.run(knownKeys, names, [asked]) : [];
  const used = new Set(rows.map(({ key }) => key));
  return jobs.map(({ job }) => {
    const key = ofImport(job);
    if (key === null) return job;
    if (used.has(key)) return { ...job, idempotencyKey: null, unique: null };
    used.add(key);
    return job;
  });
}

/** Neighbours that one statement can write: those with a unique key are written by another one. */
function runsOf(jobs: readonly NewJob[]): NewJob[][] {
  const runs: NewJob[][] = [];
  for (const job of jobs) {
    const last = runs.at(-1);
    if (last && (last[0]?.unique === null) === (job.unique === null)) last.push(job);
    else runs.push([job]);
  }
  return runs;
}

async function mark(db: Executor, names: Names, jobs: readonly Imported[]): Promise<void> {
  const marked = jobs.filter(({ attempts, dead }) => attempts > 0 || dead);
  if (marked.length === 0) return;
  await db.run(markImported, names, [
    plainArray(marked.map(({ job }) => job.id)),
    plainArray(marked.map(({ attempts }) => attempts)),
    textArray(marked.map(({ lastError }) => lastError)),
    plainArray(marked.map(({ dead }) => `${dead}`)),
  ]);
}
