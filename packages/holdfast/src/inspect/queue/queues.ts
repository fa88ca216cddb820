/** The queues of a schema, what is set on each, and which names their jobs have. */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, type Column, int4, int8, statement, text } from '../../postgres/statement.js';
import { type Answer, asks } from '../reading/asks.js';
import { instant, moment, parsed } from '../reading/columns.js';
import { firstFew } from '../reading/words.js';

/** NULL stands for none. */
const names: Column<readonly string[]> = {
  ...{ pgType: 'jsonb', parse: JSON.parse, nullable: true, missing: [] },
};

/** `inbox` first, then the others by name. */
export const listQueues = asks({
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

export type QueueRow = Answer<typeof listQueues>;

const MOST = 5;

export const isPartlyPaused = ({ pausedTypes, pausedKeys }: QueueRow) =>
  pausedTypes.length + pausedKeys.length > 0;

/** `the type send_receipt; the keys order:1, order:2`; '' when there is none. */
export function describePaused({ pausedTypes, pausedKeys }: QueueRow): string {
  const part = (names: readonly string[], noun: string) =>
    names.length === 0
      ? []
      : [`the ${noun}${names.length === 1 ? '' : 's'} ${firstFew(names, MOST, noun)}`];
  return [...part(pausedTypes, 'type'), ...part(pausedKeys, 'key')].join('; ');
}

const ROWS = 5_000;

const END = (order: 'ASC' | 'DESC') =>
  `(SELECT i.type, i.partition_key FROM holdfast.inbox AS i ORDER BY i.id ${order} LIMIT ${ROWS})`;

export const listSeenNames = statement({
  name: 'list_seen_names',
  text: `
SELECT DISTINCT CASE WHEN $1::boolean THEN j.partition_key ELSE j.type END AS name
FROM (${END('ASC')} UNION ALL ${END('DESC')}) AS j`,
  columns: { name: text },
});

/** Of the jobs that were enqueued first and last: a long queue may have others. */
export async function seenNames(db: Executor, names: Names, what: 'type' | 'key') {
  const rows = await db.run(listSeenNames, names, [what === 'key']);
  return rows.map(({ name }) => name);
}
