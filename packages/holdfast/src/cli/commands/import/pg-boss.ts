/** pg-boss 10 to 12. Its rows are read as JSON, so that columns which a version lacks are null. */
import { Failure } from '../../failures.js';
import { eachBatch, inSchema, type Place, stayingOf } from './postgres-source.js';
import type { Query, Source, SourceJob, SourceSchedule, Wanted } from './source.js';
import { unknownNames } from './unknown-names.js';

const OLDEST = 22;
const NEWEST = 46;

const VERSION = 'SELECT max(version)::text AS version FROM pgboss.version';

/** Those that pg-boss made for itself are not moved. */
const NAMES = `SELECT q.name FROM pgboss.queue AS q WHERE q.name NOT LIKE '\\_\\_pgboss\\_\\_%'`;

/** Those that wait, in the order in which pg-boss runs them. Its own queues are left out. */
const LIST = `
SELECT j.id::text || ' ' || j.name AS id, coalesce(pg_column_size(j.data), 0)::text AS bytes
FROM pgboss.job AS j
WHERE j.state::text IN ('created', 'retry', CASE WHEN $2::boolean THEN 'failed' END) AND j.name NOT LIKE '\\_\\_pgboss\\_\\_%'
  AND ($1::text[] IS NULL OR j.name = ANY ($1::text[]))
ORDER BY j.priority DESC, j.created_on, j.id`;

const WITH_IDS = `
unnest($1::text[]) WITH ORDINALITY AS w(id, n)
JOIN pgboss.job AS j ON j.name = substr(w.id, 38) AND j.id = left(w.id, 36)::uuid`;

const READ = `
SELECT w.id, (to_jsonb(j) - 'data')::text AS job, (j.keep_until < now())::text AS lapsed,
  CASE WHEN octet_length(d.data) <= $2::integer THEN d.data END AS data,
  coalesce((to_jsonb(j) ->> 'blocked')::boolean, false)::text AS blocked
FROM ${WITH_IDS}
CROSS JOIN LATERAL (SELECT coalesce(j.data::text, '{}') AS data OFFSET 0) AS d
WHERE j.state::text IN ('created', 'retry', CASE WHEN $3::boolean THEN 'failed' END)
ORDER BY w.n`;

const REMOVE = `
DELETE FROM pgboss.job AS j USING unnest($1::text[]) AS w(id)
WHERE j.name = substr(w.id, 38) AND j.id = left(w.id, 36)::uuid`;

const STAYING = `
SELECT j.name AS from, j.state::text AS state, count(*)::text AS jobs
FROM pgboss.job AS j
WHERE j.state::text IN ('active', CASE WHEN NOT $2::boolean THEN 'failed' END) AND j.name NOT LIKE '\\_\\_pgboss\\_\\_%'
  AND ($1::text[] IS NULL OR j.name = ANY ($1::text[]))
GROUP BY 1, 2 ORDER BY 1, 2`;

const SCHEDULES = `
SELECT s.name, s.cron, s.timezone, s.data::text AS data, s.options::text AS options,
  coalesce(to_jsonb(s) ->> 'key', '') AS key, coalesce(to_jsonb(s) ->> 'kind', 'cron') AS kind
FROM pgboss.schedule AS s
WHERE $1::text[] IS NULL OR s.name = ANY ($1::text[])
ORDER BY 1, 6`;

const REMOVE_SCHEDULE = `
DELETE FROM pgboss.schedule AS s
WHERE s.name = $1::text AND coalesce(to_jsonb(s) ->> 'key', '') = $2::text`;

/** Higher is first there. */
const priorityOf = (priority: number) => (priority > 0 ? 1 : priority === 0 ? 2 : 3);

const ONE_AT_A_TIME = ['singleton', 'stately', 'key_strict_fifo'];

type Row = Record<string, string | number | boolean | null>;

function onceOf({ policy, state, singleton_key: key, singleton_on: slot }: Row): SourceJob['once'] {
  if (typeof key !== 'string' || key === '') return null;
  if (policy === 'exclusive') return { key, as: 'running' };
  if (policy === 'short' || policy === 'stately' || slot !== null)
    return state === 'created' ? { key, as: 'pending' } : null;
  return policy === 'singleton' || policy === 'key_strict_fifo' ? null : { key, as: 'idempotency' };
}

/** The error of the last attempt, which pg-boss keeps as `output`. */
function errorOf(output: unknown): string | null {
  if (output === null || output === undefined) return null;
  const { stack, message } = output as { stack?: unknown; message?: unknown };
  return String(stack ?? message ?? JSON.stringify(output));
}

function warningsOf(job: Row): string[] {
  const timeout = job.expire_seconds ?? job.expire_in;
  return [
    job.retry_delay && 'the retry delay is not moved: set `retry` in the definition',
    timeout !== 900 &&
      timeout !== '00:15:00' &&
      'the time limit is not moved: set `timeout` in the definition',
    job.dead_letter && 'the dead-letter queue is not moved: here dead letters stay in their queue',
    job.group_tier && 'the group tier is not moved',
  ].filter((one): one is string => typeof one === 'string');
}

function toJob(row: Record<string, string | null>): SourceJob {
  const job = JSON.parse(row.job as string) as Row;
  const ordered = ONE_AT_A_TIME.includes(String(job.policy)) ? job.singleton_key : null;
  const [key, group] = [ordered, job.group_id].map((one) => (one ? String(one) : null));
  const trace = job.trace_context as unknown as {
    traceparent?: string;
    tracestate?: string;
  } | null;
  const dead = job.state === 'failed';
  const stays =
    row.blocked === 'true'
      ? 'waits for other jobs of a flow'
      : job.blocking === true
        ? 'other jobs of a flow wait for it'
        : row.lapsed === 'true' && !dead
          ? 'pg-boss deletes it unrun: its keep_until is over'
          : null;
  return {
    id: row.id as string,
    ...{ from: String(job.name), names: [String(job.name)], state: String(job.state) },
    ...{ payload: row.data as string, partitionKey: key ?? group ?? null },
    group: key ? (group ?? null) : null,
    priority: priorityOf(Number(job.priority)),
    runAt: String(job.start_after),
    attempts: job.state === 'created' ? 0 : Number(job.retry_count) + 1,
    maxAttempts: Number(job.retry_limit) + 1,
    ...{ error: errorOf(job.output), dead, once: onceOf(job), stays },
    headers: trace?.traceparent
      ? {
          traceparent: trace.traceparent,
          ...(trace.tracestate && { tracestate: trace.tracestate }),
        }
      : null,
    warnings: warningsOf(job),
  };
}

function toSchedule(row: Record<string, string | null>): SourceSchedule {
  const options = JSON.parse(row.options ?? '{}') ?? {};
  const { name, key, kind, cron, timezone } = row as Record<string, string>;
  return {
    ...{ id: JSON.stringify([name, key]), from: name as string, names: [name as string] },
    suffix: key as string,
    ...{ cron: cron as string, everyMs: null, timezone: timezone || null },
    payload: JSON.parse(row.data ?? 'null') ?? {},
    partitionKey: options.group?.id ?? null,
    priority: priorityOf(options.priority ?? 0),
    maxAttempts: typeof options.retryLimit === 'number' ? options.retryLimit + 1 : null,
    catchUp: options.missed === 'once' ? 'last' : 'none',
    stays: kind === 'cron' ? null : 'is an RRULE; write it as a cron line',
    warnings: options.singletonKey ? ['the singletonKey is not moved'] : [],
  };
}

const NEEDS = 'SELECT, UPDATE and DELETE on its tables';

export async function pgBoss(place: Place, wanted: Wanted): Promise<Source> {
  const { pool, schema } = place;
  const text = (sql: string) => inSchema(sql, 'pgboss', schema);
  const names = wanted.only.length > 0 ? wanted.only : null;
  const version = Number((await pool.query(text(VERSION)).catch(missing)).rows[0]?.version);
  function missing(error: { code?: string }): never {
    if (error.code !== '42P01' && error.code !== '3F000') throw error;
    throw new Failure(
      `There is no pg-boss in schema "${schema}" of this database; nothing was moved. Check --from and --from-schema.`,
    );
  }
  if (!(version >= OLDEST))
    throw new Failure(
      `The tables of pg-boss are of version ${version}, older than those of pg-boss 10 (${OLDEST}); nothing was moved. Start pg-boss 10 or later once, so that it migrates them.`,
    );
  const known = names ? (await pool.query(text(NAMES))).rows.map(({ name }) => name) : [];
  return {
    title: `pg-boss (schema version ${version}) in schema "${schema}"`,
    needs: NEEDS,
    apart: !place.same,
    warnings: [
      ...(version > NEWEST
        ? [`pg-boss has schema version ${version}; this was tested up to ${NEWEST}.`]
        : []),
      ...unknownNames(wanted.only, known),
    ],
    staying: () => stayingOf(place, text(STAYING), wanted),
    async schedules() {
      return (await pool.query(text(SCHEDULES), [names])).rows.map(toSchedule);
    },
    async removeSchedule(id: string, tx: Query) {
      await tx.query(text(REMOVE_SCHEDULE), JSON.parse(id));
    },
    each: (work) =>
      eachBatch(
        place,
        { list: text(LIST), read: text(READ), remove: text(REMOVE) },
        toJob,
        wanted,
        work,
      ),
    close: async () => undefined,
  };
}
