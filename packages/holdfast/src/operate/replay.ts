/**
 * Replay: finished jobs leave the archive and wait in the queue again, with all their attempts. Restore: discarded dead
 * letters are dead letters again, as they were, and do not run; they have freed their keys.
 *
 * It is the same job: its id, its history and its effect markers stay, and its generation goes on from where it was, so
 * nothing that an owner of before still holds can settle it. In a queue that is read by key it goes to the end of its
 * key's line; several keep the order of their enqueues. One that was cancelled while it waited waits for its time again.
 *
 * Two jobs never have one idempotency key. If this job still has its key, or nobody has it, the job keeps it for another
 * retention. If another job has it, this one stays in the archive and is reported. A unique key is about jobs that wait:
 * the job takes it again unless another one has it, and comes back in any case.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import {
  bool,
  int8,
  plainArray,
  type Row,
  statement,
  textArray,
  uuid,
} from '../postgres/statement.js';

/** A finished job and where its row was found. */
export interface FoundFinished {
  readonly id: string;
  readonly ctid: string;
}

export const replayFinished = statement({
  name: 'replay',
  text: `
WITH wanted AS MATERIALIZED (
  SELECT a.ctid AS place, a.id, a.type, a.payload, a.created_at, a.idempotency_key
  FROM holdfast.inbox_archive AS a
  -- By place, because the archive has no index that finds single rows fast. Each segment has such a place, so the id
  -- decides.
  WHERE a.ctid = ANY ($1::tid[]) AND a.id = ANY ($2::uuid[])
    AND ($3::boolean OR a.status <> 'completed')
    AND (NOT $4::boolean OR a.status = 'dead_letter')
    AND NOT EXISTS (SELECT FROM holdfast.inbox AS i WHERE i.id = a.id)
), held AS MATERIALIZED (
  SELECT k.key, k.job_id
  FROM holdfast.inbox_idempotency AS k
  WHERE k.key = ANY (ARRAY(SELECT w.idempotency_key FROM wanted AS w WHERE w.idempotency_key IS NOT NULL))
), kept AS (
  INSERT INTO holdfast.inbox_idempotency AS k (key, job_id, fingerprint, expires_at)
  SELECT DISTINCT ON (w.idempotency_key) w.idempotency_key, w.id,
    sha256(convert_to(w.type || E'\\n' || w.payload::text, 'UTF8')),
    now() + (SELECT q.idempotency_retention FROM holdfast.queues AS q WHERE q.name = 'inbox')
  FROM wanted AS w
  LEFT JOIN held AS h ON h.key = w.idempotency_key
  WHERE w.idempotency_key IS NOT NULL
  -- Of several jobs of one key, the one for which it stands, else the last.
  ORDER BY w.idempotency_key, h.job_id IS NOT DISTINCT FROM w.id DESC, w.created_at DESC, w.id DESC
  ON CONFLICT (key) DO UPDATE SET (job_id, fingerprint, expires_at) = (
    SELECT CASE WHEN lapsed THEN excluded.job_id ELSE k.job_id END,
           CASE WHEN lapsed THEN excluded.fingerprint ELSE k.fingerprint END,
           CASE WHEN lapsed OR k.job_id = excluded.job_id
             THEN greatest(excluded.expires_at, k.expires_at) ELSE k.expires_at END
    FROM (SELECT k.job_id <> excluded.job_id AND k.expires_at <= now()
            AND NOT EXISTS (SELECT FROM holdfast.inbox AS j WHERE j.id = k.job_id)) AS t(lapsed))
  RETURNING k.key, k.job_id
), verdict AS MATERIALIZED (
  SELECT w.place, w.id, coalesce(k.job_id <> w.id, false) AS key_taken
  FROM wanted AS w
  LEFT JOIN kept AS k ON k.key = w.idempotency_key
), gone AS (
  DELETE FROM holdfast.inbox_archive AS a
  WHERE a.ctid = ANY (ARRAY(SELECT v.place FROM verdict AS v WHERE NOT v.key_taken))
    AND a.id = ANY (ARRAY(SELECT v.id FROM verdict AS v WHERE NOT v.key_taken))
  RETURNING a.*
), placed AS MATERIALIZED (
  SELECT g.*, nextval('holdfast.inbox_position_seq') AS position
  FROM (SELECT * FROM gone ORDER BY created_at, id) AS g
), written AS (
  INSERT INTO holdfast.inbox (id, position, created_at, status, available_at, partition_bucket, max_attempts, version,
    priority, parked, attempts, lease_generation, type, partition_key, payload, headers, idempotency_key,
    last_error, history, group_key, unique_key)
  SELECT p.id, p.position, p.created_at, CASE WHEN $4 THEN 'dead_letter' ELSE 'pending' END::holdfast.inbox_status,
    CASE WHEN $4 THEN 'infinity'
      WHEN p.status = 'cancelled' THEN greatest(statement_timestamp(), (p.history #>> '{-1,due}')::timestamptz)
      ELSE statement_timestamp() END,
    holdfast.bucket_of(coalesce(CASE WHEN q.ordering = 'turns' THEN p.group_key END, p.partition_key)),
    p.max_attempts, p.version,
    p.priority, $4, CASE WHEN $4 THEN p.attempts ELSE 0 END, p.lease_generation, p.type, p.partition_key, p.payload, p.headers, p.idempotency_key,
    p.last_error,
    CASE WHEN $4 THEN p.history ELSE jsonb_path_query_array(
      coalesce(p.history, '[]') || jsonb_build_object('attempt', p.attempts, 'at', now(), 'worker', NULL,
        'outcome', 'replayed', 'was', CASE p.status WHEN 'dead_letter' THEN 'discarded' ELSE p.status::text END),
      '$[last-19 to last]') END,
    -- The queue may have no groups any more.
    CASE WHEN q.ordering = 'turns' THEN p.group_key END, p.unique_key
  FROM placed AS p
  JOIN holdfast.queues AS q ON q.name = 'inbox'
  ORDER BY p.position
)
SELECT v.id, v.key_taken, g.id IS NOT NULL AND coalesce((
    -- Called once, and only if one of them has such a key.
    SELECT CASE WHEN count(*) > 0 THEN holdfast.inbox_retake_unique(array_agg(u.type ORDER BY u.created_at, u.id),
      array_agg(u.unique_key ORDER BY u.created_at, u.id), array_agg(u.id ORDER BY u.created_at, u.id)) END
    FROM gone AS u WHERE u.unique_key IS NOT NULL), true) AS moved
FROM verdict AS v
LEFT JOIN gone AS g ON g.id = v.id`,
  columns: { id: uuid, key_taken: bool, moved: bool },
});

/** The statement runs in the database, with the rights of the owner: docs/roles.sql says who may call it. */
export const callReplay = statement({
  name: 'call_replay',
  text: `
SELECT r.id, r.key_taken, r.moved
FROM holdfast.inbox_verb_replay($1::text::tid[], $2::text::uuid[], $3::boolean, $4::boolean) AS r`,
  columns: replayFinished.columns,
});

/** `keyTaken`: another job has its idempotency key, so it was left. */
export type Replayed = Row<typeof replayFinished.columns>;

/** Whatever is missing in the answer was not in the archive any more, or in another state than was asked for. */
export function replay(
  db: Executor,
  names: Names,
  jobs: readonly FoundFinished[],
  { completed = false, restore = false }: { completed?: boolean; restore?: boolean } = {},
): Promise<Replayed[]> {
  return db.run(callReplay, names, [
    textArray(jobs.map(({ ctid }) => ctid)),
    plainArray(jobs.map(({ id }) => id)),
    completed,
    restore,
  ]);
}

export const forgetEffects = statement({
  name: 'forget_effects',
  text: `
WITH gone AS (
  DELETE FROM holdfast.inbox_effects AS e WHERE e.job_id = ANY ($1::uuid[]) RETURNING 1
)
SELECT count(*) AS markers FROM gone`,
  columns: { markers: int8 },
});

/** What these jobs did under `ctx.once` is done again when they run. */
export async function repeatEffects(db: Executor, names: Names, ids: readonly string[]) {
  await db.run(forgetEffects, names, [plainArray(ids)]);
}
