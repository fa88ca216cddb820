/**
 * What a delivery needs before and after its request: the endpoint with its secrets, a token of its rate, and the row in
 * the log. Each for many deliveries at once. Nobody waits here for a transaction that changes an endpoint: rows that are
 * locked are passed over, and the next attempt says the same again.
 */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { bool, int4, plainArray, statement, text } from '../../../postgres/statement.js';

/** Never shown: it holds the secrets. */
export interface Target {
  readonly id: string;
  readonly url: string;
  readonly state: 'active' | 'disabled';
  readonly stateReason: string | null;
  /** The newest first. */
  readonly secrets: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  readonly ordered: boolean;
  /** Null: it has no rate. */
  readonly rateMs: number | null;
  /** For so long it asked not to be called. */
  readonly restMs: number;
}

export const readTargets = statement({
  name: 'webhook_targets',
  text: `
SELECT jsonb_build_object('id', e.id, 'url', e.url, 'state', e.state, 'stateReason', e.state_reason, 'ordered', e.ordered,
  'rateMs', e.rate_ms::double precision / e.rate_limit,
  'restMs', (SELECT greatest(0, ceil(extract(epoch FROM h.rests_until - clock_timestamp()) * 1000))
    FROM holdfast.webhook_health AS h WHERE h.endpoint_id = e.id),
  'secrets', (SELECT jsonb_agg(s.value ORDER BY s.id DESC) FROM holdfast.webhook_secrets AS s
    WHERE s.endpoint_id = e.id AND s.kind = 's' AND (s.expires_at IS NULL OR s.expires_at > now())),
  'headers', (SELECT s.value::jsonb FROM holdfast.webhook_secrets AS s
    WHERE s.endpoint_id = e.id AND s.kind = 'h' ORDER BY s.id DESC LIMIT 1))::text AS target
FROM holdfast.webhook_endpoints AS e
WHERE e.id = ANY ($1::text::uuid[])`,
  columns: { target: text },
});

/** One that was removed is not there. */
export async function targetsOf(
  db: Executor,
  names: Names,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Target>> {
  const rows = await db.run(readTargets, names, [plainArray(ids)]);
  return new Map(
    rows.map(({ target }) => {
      const one = JSON.parse(target) as Target & { readonly restMs: number | null };
      const { secrets, headers, restMs } = one;
      return [
        one.id,
        { ...one, secrets: secrets ?? [], headers: headers ?? {}, restMs: restMs ?? 0 },
      ];
    }),
  );
}

export const takeToken = statement({
  name: 'webhook_token',
  text: `
WITH held AS MATERIALIZED (
  -- next_at is when the bucket would be full again, less one token: GCRA.
  SELECT h.endpoint_id, greatest(h.next_at, clock_timestamp()) AS next_at,
    e.rate_ms * interval '1 millisecond' / e.rate_limit AS every, e.rate_burst AS burst, clock_timestamp() AS at
  FROM holdfast.webhook_health AS h
  JOIN holdfast.webhook_endpoints AS e ON e.id = h.endpoint_id AND e.rate_limit IS NOT NULL
  WHERE h.endpoint_id = $1::text::uuid
  FOR UPDATE OF h
), taken AS (
  UPDATE holdfast.webhook_health AS h SET next_at = held.next_at + held.every
  FROM held WHERE h.endpoint_id = held.endpoint_id AND held.next_at - (held.burst - 1) * held.every <= held.at
  RETURNING 1
)
SELECT CASE WHEN EXISTS (SELECT FROM taken) THEN 0
  ELSE greatest(1, ceil(extract(epoch FROM held.next_at - (held.burst - 1) * held.every - held.at) * 1000))
  END::integer AS wait
FROM held`,
  columns: { wait: int4 },
});

/** 0: it may be called now. Otherwise for how many milliseconds its rate has no room. */
export async function tokenOf(db: Executor, names: Names, id: string): Promise<number> {
  const [row] = await db.run(takeToken, names, [id]);
  return row?.wait ?? 0;
}

export interface Attempt {
  readonly endpoint: string;
  readonly delivery: string;
  readonly message: string;
  readonly type: string;
  readonly attempt: number;
  readonly delivered: boolean;
  readonly status: number | null;
  readonly ms: number;
  readonly answer: string;
  readonly error: string | null;
  /** It says nothing about how the endpoint fares: a test, or a delivery that an endpoint refused as such. */
  readonly test: boolean;
  /** For so long the endpoint asked not to be called; null: it did not. */
  readonly rest: number | null;
}

export const logAttempts = statement({
  name: 'webhook_log',
  text: `
-- Nobody waits for the disk here: the completion of the delivery does, and what was written before is safe with it.
WITH quick AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true)
), given AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset($1::text::jsonb) AS g(endpoint uuid, delivery uuid, message text, type text,
    attempt integer, delivered boolean, status smallint, ms integer, answer text, error text, test boolean, rest bigint)
), logged AS (
  INSERT INTO holdfast.webhook_log (queue, endpoint_id, delivery_id, message_id, type, attempt, delivered, status, ms,
    answer, error)
  SELECT 'inbox', g.endpoint, g.delivery, g.message, g.type, g.attempt, g.delivered, g.status, g.ms, nullif(g.answer, ''),
    g.error
  FROM given AS g
), fares AS MATERIALIZED (
  SELECT g.endpoint, bool_or(g.delivered) AS well, max(g.rest) * interval '1 millisecond' AS rest
  FROM given AS g WHERE NOT g.test GROUP BY g.endpoint
), health AS MATERIALIZED (
  SELECT h.endpoint_id, h.failing_since, f.well, f.rest
  FROM holdfast.webhook_health AS h JOIN fares AS f ON f.endpoint = h.endpoint_id
  WHERE f.rest IS NOT NULL OR f.well = (h.failing_since IS NOT NULL)
  FOR UPDATE OF h SKIP LOCKED
), written AS (
  UPDATE holdfast.webhook_health AS h
  SET failing_since = CASE WHEN n.well THEN NULL ELSE coalesce(n.failing_since, now()) END,
    rests_until = coalesce(greatest(h.rests_until, now() + n.rest), h.rests_until)
  FROM health AS n WHERE h.endpoint_id = n.endpoint_id
)
SELECT e.id::text, e.state, coalesce(NOT f.well AND h.failing_since <= now() - $2::text::bigint * interval '1 millisecond', false) AS given_up
FROM fares AS f
CROSS JOIN quick
JOIN holdfast.webhook_endpoints AS e ON e.id = f.endpoint
LEFT JOIN holdfast.webhook_health AS h ON h.endpoint_id = f.endpoint`,
  columns: { id: text, state: text, given_up: bool },
});

/** How an endpoint stands after its attempts. `givenUp`: it has only failed for longer than is waited for. */
export interface Standing {
  readonly id: string;
  readonly state: string;
  readonly givenUp: boolean;
}

/** Of endpoints that are there. */
export async function log(
  db: Executor,
  names: Names,
  attempts: readonly Attempt[],
  disableAfterMs: number,
): Promise<ReadonlyMap<string, Standing>> {
  const params = [JSON.stringify(attempts), String(disableAfterMs)];
  const rows = await db.run(logAttempts, names, params);
  return new Map(rows.map((row) => [row.id, row]));
}

export const listAttempts = statement({
  name: 'webhook_attempts',
  text: `
SELECT jsonb_build_object('id', l.id::text, 'at', l.at, 'endpoint', l.endpoint_id, 'delivery', l.delivery_id,
  'message', l.message_id, 'type', l.type, 'attempt', l.attempt, 'delivered', l.delivered, 'status', l.status,
  'ms', l.ms, 'answer', l.answer, 'error', l.error)::text AS attempt
FROM holdfast.webhook_log AS l
WHERE l.queue = 'inbox' AND ($1::text IS NULL OR l.endpoint_id = $1::text::uuid)
  AND ($2::text IS NULL OR l.message_id = $2::text)
  AND ($3::text IS NULL OR l.delivered = $3::text::boolean) AND ($4::text IS NULL OR l.id < $4::text::bigint)
  AND ($6::text IS NULL OR EXISTS (SELECT FROM holdfast.webhook_endpoints AS e
    WHERE e.id = l.endpoint_id AND e.tenant = $6::text))
ORDER BY l.id DESC
LIMIT $5::text::integer`,
  columns: { attempt: text },
});

export interface AttemptRow extends Omit<Attempt, 'test' | 'rest' | 'answer'> {
  readonly id: string;
  readonly at: string;
  readonly answer: string | null;
}

export interface AttemptsRequest {
  readonly endpoint: string | null;
  readonly message: string | null;
  readonly delivered: boolean | null;
  readonly before: string | null;
  readonly limit: number;
  /** Only at endpoints of this tenant that are there. */
  readonly tenant?: string | undefined;
}

/** The latest first. */
export async function attempts(db: Executor, names: Names, request: AttemptsRequest) {
  const { endpoint, message, delivered, before, limit, tenant = null } = request;
  const flag = delivered === null ? null : String(delivered);
  const params = [endpoint, message, flag, before, String(limit), tenant];
  const rows = await db.run(listAttempts, names, params);
  return rows.map(({ attempt }) => JSON.parse(attempt) as AttemptRow);
}

export const pruneLog = statement({
  name: 'webhook_prune',
  text: `
WITH old AS (
  SELECT l.id FROM (
    SELECT o.id, o.at FROM holdfast.webhook_log AS o ORDER BY o.id LIMIT $1::integer
  ) AS l
  WHERE l.at < now() - $2::bigint * interval '1 millisecond'
), gone AS (
  DELETE FROM holdfast.webhook_log AS l WHERE l.id = ANY (ARRAY(SELECT o.id FROM old AS o)) RETURNING 1
)
SELECT count(*)::integer AS pruned FROM gone`,
  columns: { pruned: int4 },
});

/** One chunk, the oldest first. */
export async function prune(db: Executor, names: Names, limit: number, retentionMs: number) {
  const [row] = await db.run(pruneLog, names, [limit, retentionMs]);
  return row?.pruned ?? 0;
}
