/**
 * What a human sets on a queue: pause, resume, retentions, the payload limit of the SQL function, order, and how its
 * keys share the workers.
 *
 * The order of a queue can be changed while it is empty: its index is made anew (a trigger does that in the same
 * transaction, HF005 if the queue holds jobs). If somebody keeps the table in use, nothing is set (55P03).
 */
import type { OrderOptions } from '../job/order.js';
import { checkPolicy, type ReadPolicy, type TurnOptions } from '../job/turns.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { statement, text } from '../postgres/statement.js';

export const pauseQueue = statement({
  name: 'pause_queue',
  text: `
UPDATE holdfast.queues AS q SET paused = $1::boolean WHERE q.name = 'inbox' RETURNING q.name`,
  columns: { name: text },
});

/** A paused queue takes jobs and runs none: claims return nothing from the next statement on. */
export async function setPaused(db: Executor, names: Names, paused: boolean): Promise<boolean> {
  return (await db.run(pauseQueue, names, [paused])).length === 1;
}

export interface QueueSettings extends OrderOptions, TurnOptions {
  readonly maxPayloadBytes?: number | undefined;
  readonly idempotencyRetentionMs?: number | undefined;
  readonly archiveRetentionMs?: number | undefined;
  readonly effectRetentionMs?: number | undefined;
  readonly auditRetentionMs?: number | undefined;
}

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
    per_key = CASE WHEN $5::text IS NULL THEN q.per_key ELSE $7::integer END,
    per_group = CASE WHEN $5::text IS NULL THEN q.per_group ELSE $8::integer END,
    fair = coalesce($9::boolean, q.fair),
    weights = coalesce($10::text::jsonb, q.weights)
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
    policy?.perKey ?? null,
    policy?.perGroup ?? null,
    policy?.fair ?? null,
    policy ? JSON.stringify(policy.weights) : null,
  ]);
  return rows.length === 1;
}
