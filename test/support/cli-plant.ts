/** Jobs and workers in any state, written as rows: what an operator's questions are asked about. */
import { randomUUID } from 'node:crypto';
import { bucketOf } from '../../packages/holdfast/src/job/key.js';
import { uuidv7 } from '../../packages/holdfast/src/job/uuid.js';
import type { TestGround } from './database.js';

export interface Planted {
  readonly id?: string;
  readonly queue?: string;
  readonly type?: string;
  readonly version?: number;
  readonly key?: string;
  readonly status?: 'pending' | 'processing' | 'dead_letter';
  /** Of a dead letter: it does not hold its key. */
  readonly parked?: boolean;
  readonly crashes?: number;
  readonly priority?: number;
  readonly attempts?: number;
  readonly maxAttempts?: number;
  /** Enqueued so long ago. */
  readonly ageMs?: number;
  /** Due in so long; negative: due since. */
  readonly dueInMs?: number;
  readonly worker?: string;
  readonly leaseInMs?: number;
  readonly error?: string;
  readonly history?: object[];
  readonly payload?: unknown;
}

export async function plantJob(db: TestGround, job: Planted = {}): Promise<string> {
  const id = job.id ?? uuidv7();
  const key = job.key ?? id;
  const status = job.status ?? 'pending';
  const inHand = status === 'processing';
  await db.rows(
    `INSERT INTO holdfast.${job.queue ?? 'inbox'} (id, type, version, partition_key, partition_bucket, payload,
       status, parked, crashes, priority, attempts, max_attempts, created_at, available_at, claimed_by, claimed_at,
       lease_expires_at, lease_generation, last_error, history)
     VALUES ($1, $2, $3, $4, $5, $6::jsonb, $7::holdfast.inbox_status, $8, $18, $9, $10, $11,
       now() - $12 * interval '1 ms',
       CASE WHEN $7 = 'dead_letter' THEN 'infinity' ELSE now() + $13 * interval '1 ms' END,
       $14, CASE WHEN $14::text IS NULL THEN NULL ELSE now() - interval '10 s' END,
       CASE WHEN $14::text IS NULL THEN NULL ELSE now() + $15 * interval '1 ms' END,
       CASE WHEN $14::text IS NULL THEN 0 ELSE 1 END, $16, $17::jsonb)`,
    [
      id,
      job.type ?? 'send_receipt',
      job.version ?? 1,
      key,
      bucketOf(key),
      JSON.stringify(job.payload ?? { secret: 'canary-7f3a' }),
      status,
      job.parked ?? false,
      job.priority ?? 2,
      job.attempts ?? (inHand ? 1 : 0),
      job.maxAttempts ?? 5,
      job.ageMs ?? 0,
      job.dueInMs ?? -1_000,
      inHand ? (job.worker ?? 'w1') : null,
      job.leaseInMs ?? 60_000,
      job.error ?? null,
      job.history ? JSON.stringify(job.history) : null,
      job.crashes ?? 0,
    ],
  );
  if (inHand) await plantClaim(db, job.queue ?? 'inbox', job.worker ?? 'w1', [id]);
  return id;
}

/** The row that a claim leaves beside the jobs. */
export async function plantClaim(
  db: TestGround,
  queue: string,
  worker: string,
  ids: readonly string[],
): Promise<void> {
  await db.rows(
    `INSERT INTO holdfast.${queue}_claims (worker_id, number, jobs)
     SELECT $1, coalesce(max(c.number), 0) + 1, $2 FROM holdfast.${queue}_claims AS c WHERE c.worker_id = $1`,
    [worker, ids],
  );
}

export interface PlantedEnd {
  readonly id?: string;
  readonly queue?: string;
  readonly type?: string;
  readonly key?: string;
  readonly status?: 'completed' | 'cancelled' | 'dead_letter';
  readonly endedAgoMs?: number;
  readonly error?: string;
}

export async function plantArchived(db: TestGround, job: PlantedEnd = {}): Promise<string> {
  const id = job.id ?? uuidv7();
  const key = job.key ?? id;
  await db.rows(
    `INSERT INTO holdfast.${job.queue ?? 'inbox'}_archive (id, created_at, claimed_at, completed_at, lease_generation,
       partition_bucket, attempts, max_attempts, version, status, priority, type, partition_key, payload,
       claimed_by, last_error)
     VALUES ($1, now() - interval '1 hour', now(), now() - $2 * interval '1 ms', 1, $3, 1, 5, 1,
       $4::holdfast.inbox_status, 2, $5, $6, '{"secret": "canary-7f3a"}', 'w1', $7)`,
    [
      id,
      job.endedAgoMs ?? 0,
      bucketOf(key),
      job.status ?? 'completed',
      job.type ?? 'send_receipt',
      key,
      job.error ?? null,
    ],
  );
  return id;
}

export interface PlantedWorker {
  readonly id?: string;
  readonly status?: 'alive' | 'draining' | 'dead';
  readonly silentMs?: number;
  readonly handles?: Record<string, Record<string, number>>;
  readonly metadata?: object;
}

export async function plantWorker(db: TestGround, worker: PlantedWorker = {}): Promise<string> {
  const id = worker.id ?? `w-${randomUUID().slice(0, 8)}`;
  await db.rows(
    `INSERT INTO holdfast.workers (id, status, last_seen_at, started_at, handles, metadata)
     VALUES ($1, $2, now() - $3 * interval '1 ms', now() - interval '1 hour', $4::jsonb, $5::jsonb)`,
    [
      id,
      worker.status ?? 'alive',
      worker.silentMs ?? 0,
      JSON.stringify(worker.handles ?? { inbox: { send_receipt: 1 } }),
      JSON.stringify(worker.metadata ?? {}),
    ],
  );
  return id;
}

export async function clearAll(db: TestGround): Promise<void> {
  const queues = await db.rows<{ name: string }>('SELECT name FROM holdfast.queues');
  for (const { name } of queues) {
    await db.rows(`TRUNCATE holdfast.${name}, holdfast.${name}_archive, holdfast.${name}_claims`);
  }
  await db.rows('DELETE FROM holdfast.workers');
  await db.rows('UPDATE holdfast.queues SET paused = false');
}
