/** Who keeps vacuum from cleaning up, and what is left lying about for it. */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, int8, type Row, statement, text } from '../postgres/statement.js';
import { instant } from './columns.js';
import { type Finding, type Limits, note, ok, problem } from './doctor.js';
import type { QueueSize } from './size.js';
import { many, span } from './words.js';

export const askHorizon = statement({
  name: 'doctor_horizon',
  text: `
SELECT h.kind, h.who, h.state, h.xids, h.open_ms
FROM (
  SELECT 'transaction' AS kind, a.pid::text AS who,
    concat_ws(', ', nullif(a.application_name, ''), a.usename, a.state, host(a.client_addr)) AS state,
    greatest(age(a.backend_xmin), age(a.backend_xid))::bigint AS xids,
    (extract(epoch FROM clock_timestamp() - a.xact_start) * 1000)::bigint AS open_ms
  FROM pg_stat_activity AS a
  WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
    AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
  UNION ALL
  SELECT 'prepared transaction', p.gid, p.owner, age(p.transaction)::bigint,
    (extract(epoch FROM clock_timestamp() - p.prepared) * 1000)::bigint
  FROM pg_prepared_xacts AS p
  WHERE p.database = current_database()
  UNION ALL
  SELECT 'replication slot', s.slot_name, CASE WHEN s.active THEN 'active' ELSE 'inactive' END,
    greatest(age(s.xmin), age(s.catalog_xmin))::bigint, NULL
  FROM pg_replication_slots AS s
  WHERE NOT s.active AND (s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL)
) AS h
ORDER BY h.xids DESC
LIMIT 20`,
  columns: { kind: text, who: text, state: text.orNull, xids: int8, open_ms: int8.orNull },
});

export type Holder = Row<typeof askHorizon.columns>;

export function readHorizon(db: Executor, schema: string): Promise<Holder[]> {
  return db.run(askHorizon, { schema, queue: 'inbox' }, []);
}

const FIXES: Readonly<Record<string, (who: string) => string>> = {
  transaction: (pid) => `End it in the application, or SELECT pg_terminate_backend(${pid});`,
  'prepared transaction': (gid) => `COMMIT PREPARED '${gid}'; or ROLLBACK PREPARED '${gid}';`,
  'replication slot': (name) =>
    `Start its consumer again, or SELECT pg_drop_replication_slot('${name}');`,
};

export function judgeHorizon(holders: readonly Holder[], limits: Limits): Finding[] {
  const hidden = holders.filter(({ kind, openMs }) => kind === 'transaction' && openMs === null);
  const seen = holders.filter((holder) => !hidden.includes(holder));
  const long = seen.filter(({ openMs }) => openMs === null || openMs > limits.horizonMs);
  if (long.length === 0) return [judgeHidden(hidden)];
  return long.slice(0, 5).map(({ kind, who, state, xids, openMs }) => {
    const since = openMs === null ? '' : ` for ${span(openMs)}`;
    return problem(
      'vacuum horizon',
      `The ${kind} ${who}${state ? ` (${state})` : ''} holds it back${since}, by ${xids.toLocaleString('en')} transactions.`,
      'Rows of finished jobs cannot be cleaned while it is open: the tables grow and claims read over what is dead.',
      (FIXES[kind] as (who: string) => string)(who),
    );
  });
}

/** Of the sessions of other users an ordinary one may not see since when they are open. */
function judgeHidden(hidden: readonly Holder[]): Finding {
  if (hidden.length === 0) return ok('vacuum horizon', 'nobody holds it back');
  const most = Math.max(...hidden.map(({ xids }) => xids)).toLocaleString('en');
  return note(
    'vacuum horizon',
    `${many(hidden.length, 'transaction')} of other users hold it back, by ${most} transactions at most; since when, this user may not see.`,
    'If one is forgotten, rows of finished jobs cannot be cleaned: the tables grow.',
    'Run the doctor as a user with GRANT pg_read_all_stats (or pg_monitor).',
  );
}

export const askVacuum = statement({
  name: 'doctor_vacuum',
  text: `
SELECT greatest(s.last_autovacuum, s.last_vacuum) AS vacuumed_at,
  coalesce('autovacuum_enabled=off' = ANY (c.reloptions)
    OR 'autovacuum_enabled=false' = ANY (c.reloptions), false) AS disabled
FROM pg_class AS c
LEFT JOIN pg_stat_all_tables AS s ON s.relid = c.oid
WHERE c.oid = 'holdfast.inbox'::regclass`,
  columns: { vacuumed_at: instant, disabled: bool },
});

export type Vacuum = Row<typeof askVacuum.columns>;

export async function readVacuum(db: Executor, names: Names): Promise<Vacuum> {
  const [row] = await db.run(askVacuum, names, []);
  return row as Vacuum;
}

/** A row of a queue takes well under a kilobyte; with the room that pages keep free, three. */
const ROOMY_BYTES = 20_000;
const LARGE_BYTES = 256 * 1024 * 1024;

export function judgeTable(
  names: Names,
  size: QueueSize,
  vacuum: Vacuum,
  limits: Limits,
): Finding[] {
  const table = `${names.schema}.${names.queue}`;
  const findings: Finding[] = [];
  if (vacuum.disabled) {
    findings.push(
      problem(
        'dead rows',
        `autovacuum is switched off for ${table}.`,
        'Finished jobs leave dead rows behind; without vacuum every claim gets slower.',
        `ALTER TABLE ${table} RESET (autovacuum_enabled);`,
      ),
    );
  }
  if (size.deadRows > Math.max(limits.deadRows, size.liveRows / 2)) {
    const last = vacuum.vacuumedAt ? `last vacuum ${vacuum.vacuumedAt}` : 'never vacuumed';
    findings.push(
      problem(
        'dead rows',
        `${table} has ${size.deadRows.toLocaleString('en')} dead rows beside ${size.liveRows.toLocaleString('en')} live ones (${last}).`,
        'Claims read over them; vacuum does not keep up, or something holds it back.',
        `Look at "vacuum horizon"; then VACUUM ${table};`,
      ),
    );
  }
  if (size.tableBytes > LARGE_BYTES && size.tableBytes / Math.max(1, size.liveRows) > ROOMY_BYTES) {
    findings.push(
      note(
        'bloat',
        `${table} takes ${Math.round(size.tableBytes / 1024 / 1024).toLocaleString('en')} MB for ${size.liveRows.toLocaleString('en')} jobs.`,
        'It is free space that new jobs will use again; until then it costs disk and backups only.',
        `If it is to go back to the disk, in a quiet hour: VACUUM FULL ${table};`,
      ),
    );
  }
  if (findings.length > 0) return findings;
  return [ok('dead rows', `${table}: ${size.deadRows.toLocaleString('en')} dead rows`)];
}
