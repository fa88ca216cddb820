/** The queues of a schema and what is set on each. */
import type { Executor } from '../../postgres/queryable.js';
import {
  bool,
  type Column,
  int4,
  int8,
  type Row,
  statement,
  text,
} from '../../postgres/statement.js';
import { instant, moment, parsed } from '../reading/columns.js';

/** NULL stands for none. */
const names: Column<readonly string[]> = {
  ...{ pgType: 'jsonb', parse: JSON.parse, nullable: true, missing: [] },
};

export const listQueueRows = statement({
  name: 'list_queues',
  text: `
SELECT q.name, q.paused, to_jsonb(q.paused_types) AS paused_types, to_jsonb(q.paused_keys) AS paused_keys,
  q.ordering::text AS ordering, q.per_key, q.per_group, q.fair, q.weights, q.max_payload_bytes,
  (extract(epoch FROM q.archive_retention) * 1000)::bigint AS archive_retention_ms,
  (extract(epoch FROM q.idempotency_retention) * 1000)::bigint AS idempotency_retention_ms,
  (extract(epoch FROM q.effect_retention) * 1000)::bigint AS effect_retention_ms,
  (extract(epoch FROM q.audit_retention) * 1000)::bigint AS audit_retention_ms,
  (extract(epoch FROM q.age_after) * 1000)::bigint AS age_after_ms,
  q.max_pending, q.waiting, q.maintained_at, q.created_at
FROM holdfast.queues AS q
ORDER BY q.name <> 'inbox', q.name`,
  columns: {
    name: text,
    paused: bool,
    paused_types: names,
    paused_keys: names,
    ordering: text,
    /** Of a queue whose keys take turns; null: any number. */
    per_key: int4.orNull,
    per_group: int4.orNull,
    fair: bool,
    weights: parsed as Column<Readonly<Record<string, number>>>,
    max_payload_bytes: int4,
    archive_retention_ms: int8,
    idempotency_retention_ms: int8,
    effect_retention_ms: int8,
    audit_retention_ms: int8,
    /** Null: off. */
    age_after_ms: int8.orNull,
    /** Null: there is no limit. */
    max_pending: int4.orNull,
    /** When they were last counted; null: not yet, or there is no limit. */
    waiting: int8.orNull,
    maintained_at: instant,
    created_at: moment,
  },
});

export type QueueRow = Row<typeof listQueueRows.columns>;

/** `inbox` first, then the others by name. */
export function listQueues(db: Executor, schema: string): Promise<QueueRow[]> {
  return db.run(listQueueRows, { schema, queue: 'inbox' }, []);
}
