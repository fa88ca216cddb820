/**
 * The deliveries of an endpoint, which are jobs of one key: its id. So one bucket has all of them, and the index by which
 * claims read finds them, in the queue of turns another than in that of order.
 */
import { hintQueue } from '../../../fleet/wake.js';
import { bucketOf } from '../../../job/key.js';
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { bool, int4, plainArray, statement, text, uuid } from '../../../postgres/statement.js';

/** A delivery that is held is due so far ahead that nothing else is. */
export const HOLD_MS = 3_000 * 86_400_000;
const HELD = `i.available_at > now() + interval '1000 days' AND i.available_at < 'infinity'`;

/** `$1` is the endpoint, `$2` its bucket. */
const OF_TURNS = `i.partition_bucket = $2::text::smallint AND coalesce(i.group_key, '') COLLATE "C" = ''
    AND i.partition_key COLLATE "C" = $1::text AND NOT i.parked AND i.crashes < 2`;
const OF_KEY = `i.partition_bucket = $2::text::smallint AND i.partition_key COLLATE "C" = $1::text AND NOT i.parked`;

const waking = (name: string, of: string) =>
  statement({
    name,
    text: `
WITH held AS MATERIALIZED (
  SELECT i.id FROM holdfast.inbox AS i
  WHERE ${of} AND i.status = 'pending' AND ${HELD}
  ORDER BY i.id
  LIMIT $3::text::integer
  FOR UPDATE SKIP LOCKED
)
UPDATE holdfast.inbox AS i SET available_at = now(), wait_until = NULL
FROM held AS h WHERE i.id = h.id
RETURNING i.id, i.available_at::text AS due, i.partition_bucket::integer AS bucket`,
    columns: { id: uuid, due: text, bucket: int4 },
  });

export const wakeInTurns = waking('webhook_wake', OF_TURNS);
export const wakeInOrder = waking('webhook_wake_ordered', OF_KEY);

const place = (endpoint: string) => [endpoint, String(bucketOf(endpoint))] as const;

/** Workers read what waits for it. */
export const hintEndpoint = (db: Executor, names: Names, id: string) =>
  hintQueue(db, names, [{ runAt: 'now', partitionBucket: bucketOf(id) }]);

/** Those that are held are due now, at most so many. */
export async function wake(
  db: Executor,
  names: Names,
  { id, ordered }: { readonly id: string; readonly ordered: boolean },
  limit: number,
) {
  const params = [...place(id), String(limit)];
  const rows = await db.run(ordered ? wakeInOrder : wakeInTurns, names, params);
  return rows.map(({ id: job, due, bucket }) => ({ id: job, runAt: due, partitionBucket: bucket }));
}

export const deferDue = statement({
  name: 'webhook_defer',
  text: `
WITH due AS MATERIALIZED (
  SELECT i.id FROM holdfast.inbox AS i
  WHERE ${OF_TURNS} AND i.status = 'pending' AND i.available_at <= now()
  ORDER BY i.available_at, i.position
  LIMIT $5::text::integer
  FOR UPDATE SKIP LOCKED
), placed AS (
  SELECT d.id, row_number() OVER () AS nth FROM due AS d
)
UPDATE holdfast.inbox AS i
SET available_at = now() + ($3::text::double precision + p.nth * $4::text::double precision) * interval '1 millisecond'
FROM placed AS p WHERE i.id = p.id
RETURNING i.id`,
  columns: { id: uuid },
});

/**
 * What is due for an endpoint that may not be called now waits, each for its own time: otherwise every one of them would be
 * claimed and put back. Not needed in order, where the first holds the others.
 */
export async function defer(
  db: Executor,
  names: Names,
  endpoint: string,
  { waitMs, everyMs, limit }: { waitMs: number; everyMs: number; limit: number },
): Promise<void> {
  const params = [...place(endpoint), String(waitMs), String(everyMs), String(limit)];
  await db.run(deferDue, names, params);
}

export const findDeliveries = statement({
  name: 'webhook_of',
  text: `
SELECT i.id, i.status::text AS status
FROM holdfast.inbox AS i
WHERE i.partition_bucket = $2::text::smallint AND i.partition_key = $1::text
  AND ($3::text IS NULL OR i.status::text = $3::text)
ORDER BY i.id
LIMIT $4::text::integer`,
  columns: { id: uuid, status: text },
});

/** `status`: only those; null: all. */
export const find = (
  db: Executor,
  names: Names,
  endpoint: string,
  status: string | null,
  limit: number,
) => db.run(findDeliveries, names, [...place(endpoint), status, String(limit)]);

export const countDeliveries = statement({
  name: 'webhook_count',
  text: `
SELECT count(*) FILTER (WHERE i.status IN ('pending', 'processing') AND NOT (${HELD}))::integer AS waiting,
  count(*) FILTER (WHERE i.status = 'pending' AND ${HELD})::integer AS held,
  count(*) FILTER (WHERE i.status = 'dead_letter')::integer AS failed
FROM (
  SELECT i.status, i.available_at FROM holdfast.inbox AS i
  WHERE i.partition_bucket = $2::text::smallint AND i.partition_key = $1::text
  LIMIT $3::text::integer
) AS i`,
  columns: { waiting: int4, held: int4, failed: int4 },
});

/** Of at most so many. */
export async function count(db: Executor, names: Names, endpoint: string, limit: number) {
  const [row] = await db.run(countDeliveries, names, [...place(endpoint), String(limit)]);
  return row ?? { waiting: 0, held: 0, failed: 0 };
}

export const findEnabled = statement({
  name: 'webhook_enabled',
  text: `
SELECT e.id::text, e.ordered
FROM holdfast.webhook_endpoints AS e
WHERE e.state_at > now() - interval '15 minutes' AND e.state = 'active' AND e.state_at > e.created_at
  AND e.queue = $1::text
ORDER BY e.id
LIMIT $2::integer`,
  columns: { id: text, ordered: bool },
});

/** Endpoints that were enabled lately: an attempt that began before may hold its delivery after. */
export const enabledLately = (db: Executor, names: Names, queue: string, limit: number) =>
  db.run(findEnabled, names, [queue, limit]);

export const findOwn = statement({
  name: 'webhook_own',
  text: `
SELECT w.id
FROM unnest($1::text::uuid[]) AS w(id)
LEFT JOIN LATERAL (SELECT j.payload FROM holdfast.inbox AS j WHERE j.id = w.id LIMIT 1) AS i ON true
LEFT JOIN LATERAL (
  SELECT j.payload FROM holdfast.inbox_archive AS j WHERE j.id = w.id AND i.payload IS NULL LIMIT 1
) AS a ON true
JOIN holdfast.webhook_endpoints AS e ON e.id::text = lower(coalesce(i.payload, a.payload) ->> 'endpoint')
WHERE e.queue = $2::text AND e.tenant = $3::text`,
  columns: { id: uuid },
});

/** Those of these deliveries that go to endpoints of a tenant. `queue` is that of the endpoints. */
export async function own(
  db: Executor,
  names: Names,
  ids: readonly string[],
  { queue, tenant }: { readonly queue: string; readonly tenant: string },
): Promise<ReadonlySet<string>> {
  const rows = await db.run(findOwn, names, [plainArray(ids), queue, tenant]);
  return new Set(rows.map(({ id }) => id));
}
