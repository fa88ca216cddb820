/** Who keeps vacuum from cleaning up, and what is left lying about for it. */
import { type Names, quoteLiteral } from '../../postgres/names.js';
import { bool, int8, text } from '../../postgres/statement.js';
import type { QueueCounts } from '../queue/counts.js';
import { type Answer, asks, asksOne } from '../reading/asks.js';
import { instant } from '../reading/columns.js';
import { many, span } from '../reading/words.js';
import { type Finding, type Limits, lines, note, ok, problem } from './doctor.js';

// What holds back the cleaning of this database's tables: its own transactions, prepared ones, what a standby reports
// (hot_standby_feedback, without a slot on the session that sends to it), and slots. A slot's catalog_xmin holds back
// the catalogs only.
export const readHorizon = asks({
  name: 'doctor_horizon',
  text: `
SELECT h.kind, h.who, h.state, h.xids, h.open_ms
FROM (
  SELECT CASE WHEN a.datid IS NULL THEN 'standby' ELSE 'transaction' END AS kind,
    CASE WHEN a.datid IS NULL THEN coalesce(nullif(a.application_name, ''), a.pid::text) ELSE a.pid::text END AS who,
    concat_ws(', ', CASE WHEN a.datid IS NOT NULL THEN nullif(a.application_name, '') END, a.usename, a.state,
      host(a.client_addr)) AS state,
    greatest(age(a.backend_xmin), age(a.backend_xid))::bigint AS xids,
    (extract(epoch FROM clock_timestamp() - a.xact_start) * 1000)::bigint AS open_ms
  FROM pg_stat_activity AS a
  WHERE (a.datname = current_database() OR a.datid IS NULL) AND a.pid <> pg_backend_pid()
    AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
    -- A vacuum does not hold back others.
    AND NOT coalesce(a.backend_type = 'autovacuum worker' AND a.query LIKE 'autovacuum: VACUUM %'
      AND a.query NOT LIKE 'autovacuum: VACUUM ANALYZE %', false)
  UNION ALL
  SELECT 'prepared transaction', p.gid, p.owner::text, age(p.transaction)::bigint,
    (extract(epoch FROM clock_timestamp() - p.prepared) * 1000)::bigint
  FROM pg_prepared_xacts AS p
  WHERE p.database = current_database()
  UNION ALL
  SELECT CASE WHEN s.xmin IS NULL THEN 'slot of catalogs' WHEN s.active THEN 'active slot' ELSE 'slot' END, s.slot_name,
    concat_ws(', ', s.slot_type, CASE WHEN s.active THEN 'active' ELSE 'nobody reads it' END),
    greatest(age(s.xmin), age(s.catalog_xmin))::bigint, NULL
  FROM pg_replication_slots AS s
  WHERE (s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL) AND (s.xmin IS NOT NULL OR NOT s.active)
) AS h
ORDER BY h.xids DESC
LIMIT 50`,
  columns: { kind: text, who: text, state: text.orNull, xids: int8, open_ms: int8.orNull },
});

export type Holder = Answer<typeof readHorizon>;

const SLOT = (name: string) =>
  lines(
    'Start again who reads it. If he is gone for good:',
    `SELECT pg_drop_replication_slot(${quoteLiteral(name)});`,
  );
const STANDBY = lines(
  'On the standby end the long query, or give it a limit: max_standby_streaming_delay, and there',
  'ALTER SYSTEM SET hot_standby_feedback = off;',
  'SELECT pg_reload_conf();',
);

interface Kind {
  readonly name: string;
  readonly why?: string;
  readonly fix: (who: string) => string;
}

const KINDS: Readonly<Record<string, Kind>> = {
  transaction: {
    name: 'transaction of session',
    fix: (pid) =>
      lines('End it in the application, or here:', `SELECT pg_terminate_backend(${pid});`),
  },
  'prepared transaction': {
    name: 'prepared transaction',
    fix: (gid) =>
      lines(
        `If its coordinator does not know it any more; COMMIT PREPARED, if it was to be done:`,
        `ROLLBACK PREPARED ${quoteLiteral(gid)};`,
      ),
  },
  standby: { name: 'standby (hot_standby_feedback)', fix: () => STANDBY },
  'active slot': { name: 'standby (hot_standby_feedback) of the slot', fix: () => STANDBY },
  slot: { name: 'replication slot', fix: SLOT },
  'slot of catalogs': {
    name: 'replication slot',
    why: "It holds back the server's own catalogs, and the WAL since its reader went away: the disk fills.",
    fix: SLOT,
  },
};

/** Nobody knows since when a standby or a slot is where it is; those that are read move on by themselves. */
function isLong({ kind, xids, openMs }: Holder, limits: Limits): boolean {
  if (kind === 'standby' || kind === 'active slot') return xids >= limits.horizonXids;
  return openMs === null || openMs > limits.horizonMs;
}

export function judgeHorizon(holders: readonly Holder[], limits: Limits): Finding[] {
  const hidden = holders.filter(({ kind, openMs }) => kind === 'transaction' && openMs === null);
  const seen = holders.filter((holder) => !hidden.includes(holder));
  const long = seen.filter((holder) => isLong(holder, limits));
  if (long.length === 0) return [judgeHidden(hidden)];
  return long.slice(0, 5).map(({ kind, who, state, xids, openMs }) => {
    const since = openMs === null ? '' : ` for ${span(openMs)}`;
    const { name, why, fix } = KINDS[kind] as Kind;
    return problem(
      'vacuum horizon',
      `The ${name} ${who}${state ? ` (${state})` : ''} holds it back${since}, by ${xids.toLocaleString('en')} transactions.`,
      why ??
        'Rows of finished jobs cannot be cleaned while it is open: the tables grow and claims read over what is dead.',
      fix(who),
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
    'Run the doctor as a member of pg_read_all_stats (or pg_monitor).',
  );
}

export const readVacuum = asksOne({
  name: 'doctor_vacuum',
  text: `
SELECT greatest(s.last_autovacuum, s.last_vacuum) AS vacuumed_at,
  -- Since the statistics were last reset; until then they only know what was written since.
  coalesce(s.last_autovacuum, s.last_vacuum, s.last_autoanalyze, s.last_analyze) IS NOT NULL AS counted,
  coalesce('autovacuum_enabled=off' = ANY (c.reloptions)
    OR 'autovacuum_enabled=false' = ANY (c.reloptions), false) AS disabled
FROM pg_class AS c
LEFT JOIN pg_stat_all_tables AS s ON s.relid = c.oid
WHERE c.oid = 'holdfast.inbox'::regclass`,
  columns: { vacuumed_at: instant, counted: bool, disabled: bool },
});

export type Vacuum = Answer<typeof readVacuum>;

/** A row of a queue takes well under a kilobyte; with the room that pages keep free, three. */
const ROOMY_BYTES = 20_000;
const LARGE_BYTES = 256 * 1024 * 1024;

const figure = (value: number) => value.toLocaleString('en');

/** How many jobs there are, or null where nothing can tell: the statistics were reset and the queue is large. */
function rowsOf(counts: QueueCounts, vacuum: Vacuum): number | null {
  const { pending, processing, deadLetter, approximate, size } = counts;
  if (!approximate) return pending + processing + deadLetter;
  const known = vacuum.counted || size.expectedRows > 0;
  return known ? Math.max(size.liveRows, size.expectedRows) : null;
}

export function judgeTable(
  names: Names,
  counts: QueueCounts,
  vacuum: Vacuum,
  limits: Limits,
): Finding[] {
  const table = `${names.schema}.${names.queue}`;
  const { size } = counts;
  const rows = rowsOf(counts, vacuum);
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
  if (size.deadRows > Math.max(limits.deadRows, (rows ?? size.liveRows) / 2)) {
    const last = vacuum.vacuumedAt ? `last vacuum ${vacuum.vacuumedAt}` : 'no vacuum is on record';
    const beside = rows === null ? '' : ` beside ${figure(rows)} live ones`;
    findings.push(
      problem(
        'dead rows',
        `${table} has ${figure(size.deadRows)} dead rows${beside} (${last}).`,
        'Claims read over them; vacuum does not keep up, or something holds it back.',
        lines('Look at "vacuum horizon" first; then:', `VACUUM ${table};`),
      ),
    );
  }
  if (
    rows !== null &&
    size.tableBytes > LARGE_BYTES &&
    size.tableBytes / Math.max(1, rows) > ROOMY_BYTES
  ) {
    findings.push(
      note(
        'bloat',
        `${table} takes ${figure(Math.round(size.tableBytes / 1024 / 1024))} MB for ${many(rows, 'job')}.`,
        'It is free space that new jobs will use again; until then it costs disk and backups only.',
        lines(
          'Nothing, if it is used again. This gives back the empty end of the file and blocks nobody; for the rest see "Disk" on the page "Operating" of the docs:',
          `VACUUM (TRUNCATE, ANALYZE) ${table};`,
        ),
      ),
    );
  }
  if (findings.length > 0) return findings;
  return [ok('dead rows', `${table}: ${figure(size.deadRows)} dead rows`)];
}
