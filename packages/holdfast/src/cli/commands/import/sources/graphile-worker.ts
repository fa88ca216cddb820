/** graphile-worker 0.16 and later: payloads are only in its private tables. */
import { readFile } from 'node:fs/promises';
import { Failure } from '../../../failures.js';
import { crontabOf } from './crontab.js';
import { lossesOf } from './fields.js';
import { CRONTAB, toJob } from './graphile-worker-row.js';
import { type Place, Tables } from './postgres-source.js';
import type { Source, Wanted } from './source.js';
import { unknownNames } from './unknown-names.js';

/** Tables whose rows are hidden from this role look empty. */
const VERSION = `
SELECT max(m.id)::text AS version, bool_or(row_security_active('graphile_worker._private_jobs'))::text AS hidden
FROM graphile_worker.migrations AS m`;

const OF_TASKS = `
FROM graphile_worker._private_jobs AS j
JOIN graphile_worker._private_tasks AS t ON t.id = j.task_id`;

const LIST = `
SELECT j.id::text AS id, pg_column_size(j.payload)::text AS bytes
${OF_TASKS}
WHERE j.locked_at IS NULL AND (j.attempts < j.max_attempts OR $2::boolean)
  AND ($1::text[] IS NULL OR t.identifier = ANY ($1::text[]))
ORDER BY j.priority, j.run_at, j.id`;

const READ = `
SELECT j.id::text AS id, t.identifier, q.queue_name, (q.locked_at IS NOT NULL)::text AS queue_locked,
  CASE WHEN octet_length(j.payload::text) <= $2::integer THEN j.payload::text END AS data,
  to_json(json_populate_record(j, '{"payload": null}'))::text AS job
FROM unnest($1::bigint[]) WITH ORDINALITY AS w(id, n)
JOIN graphile_worker._private_jobs AS j ON j.id = w.id
JOIN graphile_worker._private_tasks AS t ON t.id = j.task_id
LEFT JOIN graphile_worker._private_job_queues AS q ON q.id = j.job_queue_id
WHERE j.locked_at IS NULL AND (j.attempts < j.max_attempts OR $3::boolean)
ORDER BY w.n`;

const REMOVE = 'DELETE FROM graphile_worker._private_jobs AS j WHERE j.id = ANY ($1::bigint[])';

const STAYING = `
SELECT t.identifier AS from, CASE WHEN j.locked_at IS NOT NULL THEN 'active' ELSE 'failed' END AS state,
  count(*)::text AS jobs
${OF_TASKS}
WHERE (j.locked_at IS NOT NULL OR j.attempts >= j.max_attempts AND NOT $2::boolean) AND ($1::text[] IS NULL OR t.identifier = ANY ($1::text[]))
GROUP BY 1, 2 ORDER BY 1, 2`;

const TASKS = 'SELECT t.identifier FROM graphile_worker._private_tasks AS t';

const CRONTABS = `
SELECT k.identifier, to_json(k.last_execution) #>> '{}' AS last_execution
FROM graphile_worker._private_known_crontabs AS k ORDER BY 1`;

const readCrontab = (path: string) =>
  readFile(path, 'utf8').catch((error: Error) => {
    throw new Failure(`${path} cannot be read: ${error.message}. Nothing was moved.`);
  });

const OLDER = '; an older one migrates its tables with its --schema-only';

export async function graphileWorker(place: Place, wanted: Wanted): Promise<Source> {
  const { schema } = place;
  const tables = new Tables(place, wanted, 'graphile_worker');
  const { names } = tables;
  const row = await tables.version(VERSION, 'graphile-worker 0.16 or later', OLDER);
  const { version, hidden } = row;
  if (hidden === 'true')
    throw new Failure(
      `Row security hides the jobs of "${schema}" from this role; nothing was moved. Connect as the owner of its tables with --from URL.`,
    );
  const known = await tables.rows(CRONTABS);
  const tasks = names
    ? (await tables.rows(TASKS)).map(({ identifier }) => identifier as string)
    : [];
  const { crontab } = wanted;
  const lines = crontab === undefined ? [] : crontabOf(await readCrontab(crontab));
  return {
    ...tables.source({ list: LIST, read: READ, remove: REMOVE, staying: STAYING }, toJob),
    title: `graphile-worker (migration ${version}) in schema "${schema}"`,
    needs: 'SELECT, UPDATE and DELETE on its _private_ tables, and BYPASSRLS',
    warnings: [
      ...(known.length > 0 && crontab === undefined
        ? [
            `Its database only knows the names of crontab lines, not when they fire: ${known.map(({ identifier, last_execution }) => `${identifier} (last ${last_execution})`).join(', ')}. --crontab FILE makes schedules of them.`,
          ]
        : []),
      ...unknownNames(wanted.only, [...tasks, ...lines.map(({ from }) => from)]),
    ],
    losses: async () =>
      crontab === undefined
        ? []
        : known.flatMap((line) =>
            lossesOf(CRONTAB, line).map((text) => ({ text, noun: 'crontab line' })),
          ),
    schedules: async () => lines.filter(({ from }) => !names || names.includes(from)),
    // They are in a file, from which a person removes them.
    removeSchedule: async () => undefined,
  };
}
