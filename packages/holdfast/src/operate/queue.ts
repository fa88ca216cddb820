/**
 * What a human sets on a queue: pause, resume, retentions, the payload limit of the SQL function, order, and how its
 * keys share the workers. The order can be changed while the queue is empty: a trigger makes its index anew in the same
 * transaction (HF005 if the queue holds jobs). If somebody keeps the table in use, nothing is set (55P03).
 */
import { checkPolicy, type ReadPolicy, type ReadPolicyOptions } from '../job/turns.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, int4, statement, text } from '../postgres/statement.js';

export const pauseQueue = statement({
  name: 'pause_queue',
  text: `
UPDATE holdfast.queues AS q SET paused = $1::boolean
FROM (SELECT b.name, b.paused FROM holdfast.queues AS b WHERE b.name = 'inbox' FOR NO KEY UPDATE) AS before
WHERE q.name = before.name
RETURNING before.paused AS was`,
  columns: { was: bool },
});

/**
 * A paused queue takes jobs and runs none: claims return nothing from the next statement on. Whether it was paused
 * before; null: there is no such queue.
 */
export async function setPaused(db: Executor, names: Names, paused: boolean) {
  const [row] = await db.run(pauseQueue, names, [paused]);
  return row?.was ?? null;
}

/** One type, or one key, of a queue. */
export type QueuePart = { readonly type: string } | { readonly key: string };

/** More of each are not kept: claims compare every job with them. */
export const MAX_PAUSED = 100;

const without = (list: string, name: string) => `CASE WHEN ${name} IS NULL THEN ${list} ELSE
      nullif(array_remove(${list}, ${name}) || CASE WHEN $1::boolean THEN ARRAY[${name}] ELSE '{}' END, '{}') END`;

export const pauseQueuePart = statement({
  name: 'pause_part',
  text: `
UPDATE holdfast.queues AS q
SET paused_types = ${without('q.paused_types', '$2::text')},
    paused_keys = ${without('q.paused_keys', '$3::text')}
FROM (SELECT b.* FROM holdfast.queues AS b WHERE b.name = 'inbox' FOR NO KEY UPDATE) AS before
WHERE q.name = before.name
RETURNING coalesce($2::text = ANY (before.paused_types), false)
    OR coalesce($3::text = ANY (before.paused_keys), false) AS was,
  greatest(coalesce(cardinality(q.paused_types), 0), coalesce(cardinality(q.paused_keys), 0)) AS most`,
  columns: { was: bool, most: int4 },
});

/** Whether it was paused before, and how many types, or keys, are paused now; null: there is no such queue. */
export async function setPartPaused(db: Executor, names: Names, part: QueuePart, paused: boolean) {
  const name = 'type' in part ? [part.type, null] : [null, part.key];
  const [row] = await db.run(pauseQueuePart, names, [paused, ...name]);
  return row ?? null;
}

export const lockQueueRow = statement({
  name: 'lock_queue',
  text: `SELECT q.name FROM holdfast.queues AS q WHERE q.name = 'inbox' FOR NO KEY UPDATE`,
  columns: { name: text },
});

/** Until the end of the transaction nobody else sets anything on the queue. */
export async function lockQueue(db: Executor, names: Names): Promise<void> {
  await db.run(lockQueueRow, names, []);
}

export type QueueSettings = ReadPolicyOptions & {
  readonly maxPayloadBytes?: number | undefined;
  readonly idempotencyRetentionMs?: number | undefined;
  readonly archiveRetentionMs?: number | undefined;
  readonly effectRetentionMs?: number | undefined;
  readonly auditRetentionMs?: number | undefined;
  /** 0: off. */
  readonly ageAfterMs?: number | undefined;
  /** 0: off. */
  readonly maxPending?: number | undefined;
};

export const configureQueue = statement({
  name: 'configure_queue',
  text: `
UPDATE holdfast.queues AS q
SET max_payload_bytes = coalesce($1::integer, q.max_payload_bytes),
    idempotency_retention = coalesce($2::bigint * interval '1 millisecond', q.idempotency_retention),
    archive_retention = coalesce($3::bigint * interval '1 millisecond', q.archive_retention),
    effect_retention = coalesce($4::bigint * interval '1 millisecond', q.effect_retention),
    ordering = coalesce($5::text::holdfast.ordering, q.ordering),
    audit_retention = coalesce($6::bigint * interval '1 millisecond', q.audit_retention),
    age_after = CASE WHEN $7::bigint IS NULL THEN q.age_after
      ELSE nullif($7::bigint, 0) * interval '1 millisecond' END,
    max_pending = CASE WHEN $8::integer IS NULL THEN q.max_pending ELSE nullif($8::integer, 0) END,
    -- Counted with another limit, or no more.
    waiting = CASE WHEN $8::integer IS NULL THEN q.waiting END,
    recount_at = CASE WHEN $8::integer IS NULL THEN q.recount_at END,
    per_key = CASE WHEN $5::text IS NULL THEN q.per_key ELSE $9::integer END,
    per_group = CASE WHEN $5::text IS NULL THEN q.per_group ELSE $10::integer END,
    fair = coalesce($11::boolean, q.fair),
    weights = coalesce($12::text::jsonb, q.weights)
WHERE q.name = 'inbox'
RETURNING q.name`,
  columns: { name: text },
});

/** What is left out stays as it is; `now`: how the queue is read. False: there is no such queue. */
export async function configure(
  db: Executor,
  names: Names,
  settings: QueueSettings,
  now?: ReadPolicy,
): Promise<boolean> {
  const policy = checkPolicy(`Queue "${names.queue}"`, settings, now);
  const rows = await db.run(configureQueue, names, [
    settings.maxPayloadBytes ?? null,
    settings.idempotencyRetentionMs ?? null,
    settings.archiveRetentionMs ?? null,
    settings.effectRetentionMs ?? null,
    policy?.ordering ?? null,
    settings.auditRetentionMs ?? null,
    settings.ageAfterMs ?? null,
    settings.maxPending ?? null,
    policy?.perKey ?? null,
    policy?.perGroup ?? null,
    policy?.fair ?? null,
    policy ? JSON.stringify(policy.weights) : null,
  ]);
  return rows.length === 1;
}
