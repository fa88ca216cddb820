/** pg-boss 10 to 12. Its rows are read as JSON, so that columns which a version lacks, or has more, are no matter. */
import { Failure } from '../../../failures.js';
import { lossesOf } from './fields.js';
import { QUEUE, toJob, toSchedule } from './pg-boss-row.js';
import { type Place, Tables } from './postgres-source.js';
import type { Loss, Query, Source, Wanted } from './source.js';
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
SELECT w.id, to_json(json_populate_record(j, '{"data": null}'))::text AS job, (j.keep_until < now())::text AS lapsed,
  CASE WHEN octet_length(d.data) <= $2::integer THEN d.data END AS data
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
SELECT to_json(s)::text AS schedule, q.retry_limit::text AS retry_limit
FROM pgboss.schedule AS s
LEFT JOIN pgboss.queue AS q ON q.name = s.name
WHERE $1::text[] IS NULL OR s.name = ANY ($1::text[])
ORDER BY s.name, to_jsonb(s) ->> 'key'`;

const QUEUES = `
SELECT to_json(q)::text AS queue FROM pgboss.queue AS q
WHERE q.name NOT LIKE '\\_\\_pgboss\\_\\_%' AND ($1::text[] IS NULL OR q.name = ANY ($1::text[]))`;

const SUBSCRIPTIONS = `
SELECT s.event, s.name FROM pgboss.subscription AS s
WHERE $1::text[] IS NULL OR s.name = ANY ($1::text[])`;

const REMOVE_SCHEDULE = `
DELETE FROM pgboss.schedule AS s
WHERE s.name = $1::text AND coalesce(to_jsonb(s) ->> 'key', '') = $2::text`;

const NEEDS = 'SELECT, UPDATE and DELETE on its tables';

const SUBSCRIPTION =
  'a publisher here enqueues one job for each subscriber; subscriptions are not moved';

async function lossesIn(tables: Tables): Promise<Loss[]> {
  const queues = await tables.rows(QUEUES, [tables.names]);
  const lost = queues.flatMap(({ queue }) => lossesOf(QUEUE, JSON.parse(queue as string)));
  const subscriptions = await tables.rows(SUBSCRIPTIONS, [tables.names]);
  return [
    ...lost.map((text) => ({ text, noun: 'queue' })),
    ...subscriptions.map(() => ({ text: SUBSCRIPTION, noun: 'subscription' })),
  ];
}

export async function pgBoss(place: Place, wanted: Wanted): Promise<Source> {
  const tables = new Tables(place, wanted, 'pgboss');
  const { names } = tables;
  const version = Number((await tables.version(VERSION, 'pg-boss')).version);
  if (!(version >= OLDEST))
    throw new Failure(
      `The tables of pg-boss are of version ${version}, older than those of pg-boss 10 (${OLDEST}); nothing was moved. Start pg-boss 10 or later once, so that it migrates them.`,
    );
  const known = names ? (await tables.rows(NAMES)).map(({ name }) => name as string) : [];
  return {
    ...tables.source({ list: LIST, read: READ, remove: REMOVE, staying: STAYING }, toJob),
    title: `pg-boss (schema version ${version}) in schema "${place.schema}"`,
    needs: NEEDS,
    warnings: [
      ...(version > NEWEST
        ? [`pg-boss has schema version ${version}; this was tested up to ${NEWEST}.`]
        : []),
      ...unknownNames(wanted.only, known),
    ],
    losses: () => lossesIn(tables),
    schedules: async () => (await tables.rows(SCHEDULES, [names])).map(toSchedule),
    async removeSchedule(id: string, tx: Query) {
      await tx.query(tables.text(REMOVE_SCHEDULE), JSON.parse(id));
    },
  };
}
