/**
 * Endpoints: made, read, changed and removed. What is shown of one holds no secret: of its headers only the names, of its
 * signing secrets only how many there are. `queue` is that of `webhooks()`.
 */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { bool, statement, text } from '../../../postgres/statement.js';

/** As the database tells it: times are texts. */
export interface EndpointRow {
  readonly id: string;
  readonly tenant: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly headers: readonly string[];
  readonly ordered: boolean;
  readonly concurrency: number;
  readonly rate: { readonly limit: number; readonly perMs: number; readonly burst: number } | null;
  readonly state: 'active' | 'disabled';
  readonly stateReason: string | null;
  readonly stateBy: string | null;
  readonly stateAt: string;
  readonly failingSince: string | null;
  readonly restsUntil: string | null;
  readonly secrets: number;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** `e` is the endpoint. */
const SHOWN = `jsonb_build_object('id', e.id, 'tenant', e.tenant, 'url', e.url, 'events', e.events,
    'headers', e.header_names, 'ordered', e.ordered, 'concurrency', e.concurrency,
    'rate', CASE WHEN e.rate_limit IS NOT NULL
      THEN jsonb_build_object('limit', e.rate_limit, 'perMs', e.rate_ms, 'burst', e.rate_burst) END,
    'state', e.state, 'stateReason', e.state_reason, 'stateBy', e.state_by, 'stateAt', e.state_at,
    'createdAt', e.created_at, 'updatedAt', e.updated_at) || coalesce((
      SELECT jsonb_build_object('failingSince', h.failing_since, 'restsUntil', h.rests_until)
      FROM holdfast.webhook_health AS h WHERE h.endpoint_id = e.id),
    '{"failingSince": null, "restsUntil": null}') || jsonb_build_object('secrets', (
      SELECT count(*) FROM holdfast.webhook_secrets AS s
      WHERE s.endpoint_id = e.id AND s.kind = 's' AND (s.expires_at IS NULL OR s.expires_at > now())))`;

const columns = { endpoint: text } as const;
const rowOf = ({ endpoint }: { readonly endpoint: string }) => JSON.parse(endpoint) as EndpointRow;

export interface NewEndpoint {
  readonly id: string;
  readonly tenant: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly header_names: readonly string[];
  readonly ordered: boolean;
  readonly concurrency: number;
  readonly rate_limit: number | null;
  readonly rate_ms: number | null;
  readonly rate_burst: number | null;
}

export const lockTenant = statement({
  name: 'webhook_lock_tenant',
  text: `SELECT pg_advisory_xact_lock('holdfast.webhook_endpoints'::regclass::oid::integer,
  hashtext('inbox' || $1::text))::text AS held`,
  columns: { held: text },
});

export const addEndpoint = statement({
  name: 'webhook_add',
  text: `
WITH added AS (
  INSERT INTO holdfast.webhook_endpoints (queue, id, tenant, url, events, header_names, ordered, concurrency,
    rate_limit, rate_ms, rate_burst)
  SELECT 'inbox', n.id, n.tenant, n.url, n.events, n.header_names, n.ordered, n.concurrency, n.rate_limit, n.rate_ms,
    n.rate_burst
  FROM jsonb_to_record($1::text::jsonb) AS n(id uuid, tenant text, url text, events text[], header_names text[],
    ordered boolean, concurrency smallint, rate_limit integer, rate_ms bigint, rate_burst integer)
  WHERE (SELECT count(*) FROM (SELECT FROM holdfast.webhook_endpoints AS e
    WHERE e.queue = 'inbox' AND e.tenant = n.tenant LIMIT $4::text::integer) AS e) < $4::text::integer
  RETURNING id, concurrency
), windowed AS (
  INSERT INTO holdfast.key_windows (queue, key, per_key) SELECT 'inbox', a.id::text, a.concurrency FROM added AS a
), secrets AS (
  INSERT INTO holdfast.webhook_secrets (endpoint_id, kind, value)
  SELECT a.id, s.kind::"char", s.value
  FROM added AS a, (VALUES ('s', $2::text), ('h', $3::text)) AS s(kind, value) WHERE s.value IS NOT NULL
)
INSERT INTO holdfast.webhook_health (endpoint_id) SELECT a.id FROM added AS a
RETURNING endpoint_id::text AS id`,
  columns: { id: text },
});

/** `headers`: as JSON; null: none. False: its tenant has `most` already, which it never exceeds. */
export async function add(
  db: Executor,
  names: Names,
  endpoint: NewEndpoint,
  { secret, headers, most }: { secret: string; headers: string | null; most: number },
): Promise<boolean> {
  // The count sees those of every transaction that had the lock before.
  await db.run(lockTenant, names, [endpoint.tenant]);
  const values = [JSON.stringify(endpoint), secret, headers, String(most)];
  return (await db.run(addEndpoint, names, values)).length > 0;
}

export const showEndpoint = statement({
  name: 'webhook_show',
  text: `
SELECT (${SHOWN})::text AS endpoint
FROM holdfast.webhook_endpoints AS e
WHERE e.queue = 'inbox' AND e.id = $1::text::uuid AND ($2::text IS NULL OR e.tenant = $2::text)`,
  columns,
});

/** Null: there is none, or it is another tenant's. */
export async function show(
  db: Executor,
  names: Names,
  id: string,
  tenant: string | null = null,
): Promise<EndpointRow | null> {
  const [row] = await db.run(showEndpoint, names, [id, tenant]);
  return row ? rowOf(row) : null;
}

export const lockEndpoint = statement({
  name: 'webhook_lock',
  text: `
SELECT e.url, e.ordered
FROM holdfast.webhook_endpoints AS e
WHERE e.queue = 'inbox' AND e.id = $1::text::uuid AND ($2::text IS NULL OR e.tenant = $2::text)
FOR UPDATE`,
  columns: { url: text, ordered: bool },
});

/** Nobody else changes it until the transaction ends. Null: there is none, or it is another tenant's. */
export async function lock(db: Executor, names: Names, id: string, tenant: string | null) {
  return (await db.run(lockEndpoint, names, [id, tenant]))[0] ?? null;
}

export const listEndpoints = statement({
  name: 'webhook_list',
  text: `
SELECT (${SHOWN})::text AS endpoint
FROM holdfast.webhook_endpoints AS e
WHERE e.queue = 'inbox' AND ($1::text IS NULL OR e.tenant = $1::text) AND ($2::text IS NULL OR e.state = $2::text)
  AND ($3::text IS NULL OR e.id > $3::text::uuid)
ORDER BY e.id
LIMIT $4::text::integer`,
  columns,
});

export interface ListRequest {
  readonly tenant: string | null;
  readonly state: string | null;
  readonly after: string | null;
  readonly limit: number;
}

export async function list(db: Executor, names: Names, request: ListRequest) {
  const { tenant, state, after, limit } = request;
  const rows = await db.run(listEndpoints, names, [tenant, state, after, String(limit)]);
  return rows.map(rowOf);
}

export const listWebhookQueues = statement({
  name: 'webhook_queues',
  text: 'SELECT DISTINCT e.queue FROM holdfast.webhook_endpoints AS e ORDER BY e.queue',
  columns: { queue: text },
});

/** The queues that have endpoints. */
export async function queuesOf(db: Executor, names: Names): Promise<string[]> {
  return (await db.run(listWebhookQueues, names, [])).map(({ queue }) => queue);
}

export const changeEndpoint = statement({
  name: 'webhook_change',
  text: `
WITH changed AS (
  UPDATE holdfast.webhook_endpoints AS e
  SET url = coalesce(c.given ->> 'url', e.url),
    events = CASE WHEN c.given ? 'events' THEN ARRAY(SELECT jsonb_array_elements_text(c.given -> 'events')) ELSE e.events END,
    header_names = CASE WHEN c.given ? 'header_names'
      THEN ARRAY(SELECT jsonb_array_elements_text(c.given -> 'header_names')) ELSE e.header_names END,
    concurrency = coalesce((c.given ->> 'concurrency')::smallint, e.concurrency),
    rate_limit = CASE WHEN c.given ? 'rate_limit' THEN (c.given ->> 'rate_limit')::integer ELSE e.rate_limit END,
    rate_ms = CASE WHEN c.given ? 'rate_ms' THEN (c.given ->> 'rate_ms')::bigint ELSE e.rate_ms END,
    rate_burst = CASE WHEN c.given ? 'rate_burst' THEN (c.given ->> 'rate_burst')::integer ELSE e.rate_burst END,
    updated_at = now()
  FROM (SELECT $2::text::jsonb) AS c(given)
  WHERE e.queue = 'inbox' AND e.id = $1::text::uuid
  RETURNING e.id, e.concurrency
), windowed AS (
  UPDATE holdfast.key_windows AS w SET per_key = c.concurrency
  FROM changed AS c WHERE w.queue = 'inbox' AND w.key = c.id::text AND w.per_key <> c.concurrency
), gone AS (
  DELETE FROM holdfast.webhook_secrets AS s USING changed AS c
  WHERE s.endpoint_id = c.id AND s.kind = 'h' AND $3::text IS NOT NULL
), headers AS (
  INSERT INTO holdfast.webhook_secrets (endpoint_id, kind, value)
  SELECT c.id, 'h', $3::text FROM changed AS c WHERE $3::text <> '{}'
)
SELECT c.id::text FROM changed AS c`,
  columns: { id: text },
});

/** `headers`: as JSON; null: they stay. */
export async function change(
  db: Executor,
  names: Names,
  id: string,
  changes: Partial<NewEndpoint>,
  headers: string | null,
): Promise<void> {
  await db.run(changeEndpoint, names, [id, JSON.stringify(changes), headers]);
}

export const turnEndpoint = statement({
  name: 'webhook_turn',
  text: `
WITH wanted AS (
  SELECT e.id, e.state FROM holdfast.webhook_endpoints AS e
  WHERE e.queue = 'inbox' AND e.id = $1::text::uuid FOR UPDATE
), turned AS (
  UPDATE holdfast.webhook_endpoints AS e
  SET state = $2::text, state_reason = left($3::text, 2000), state_by = left($4::text, 200), state_at = clock_timestamp(),
    updated_at = now()
  FROM wanted AS w WHERE e.id = w.id AND w.state <> $2::text
), healed AS (
  -- What it did before it was disabled does not count any more.
  UPDATE holdfast.webhook_health AS h SET failing_since = NULL, rests_until = NULL
  FROM wanted AS w WHERE h.endpoint_id = w.id AND $2::text = 'active'
)
SELECT w.state AS was FROM wanted AS w`,
  columns: { was: text },
});

/** The state before; null: there is no such endpoint. */
export async function turn(
  db: Executor,
  names: Names,
  id: string,
  state: 'active' | 'disabled',
  words: { readonly reason: string | null; readonly by: string | null },
): Promise<string | null> {
  const [row] = await db.run(turnEndpoint, names, [id, state, words.reason, words.by]);
  return row?.was ?? null;
}

export const removeEndpoint = statement({
  name: 'webhook_remove',
  text: `
WITH gone AS (
  DELETE FROM holdfast.webhook_endpoints AS e WHERE e.queue = 'inbox' AND e.id = $1::text::uuid RETURNING e.id
), windowed AS (
  DELETE FROM holdfast.key_windows AS w USING gone AS g WHERE w.queue = 'inbox' AND w.key = g.id::text
), secrets AS (
  DELETE FROM holdfast.webhook_secrets AS s USING gone AS g WHERE s.endpoint_id = g.id
), health AS (
  DELETE FROM holdfast.webhook_health AS h USING gone AS g WHERE h.endpoint_id = g.id
)
SELECT g.id::text FROM gone AS g`,
  columns: { id: text },
});

export async function remove(db: Executor, names: Names, id: string): Promise<void> {
  await db.run(removeEndpoint, names, [id]);
}

export const findWanting = statement({
  name: 'webhook_wanting',
  text: `
SELECT e.id::text, e.ordered
FROM holdfast.webhook_endpoints AS e
WHERE e.queue = 'inbox' AND e.tenant = $1::text
  AND EXISTS (SELECT FROM unnest(e.events) AS p(pattern)
    WHERE p.pattern = '*' OR p.pattern = $2::text
      OR right(p.pattern, 2) = '.*' AND starts_with($2::text, left(p.pattern, -1)))
ORDER BY e.id`,
  columns: { id: text, ordered: bool },
});

/** The endpoints of a tenant that want events of this type, disabled ones too: they hold what is sent to them. */
export const wanting = (db: Executor, names: Names, tenant: string, type: string) =>
  db.run(findWanting, names, [tenant, type]);
