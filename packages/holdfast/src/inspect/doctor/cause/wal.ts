/** Whether the WAL can go away: slots that hold it, an archive that refuses it, and how much there is as far as one may see. */
import { quoteLiteral } from '../../../postgres/names.js';
import { bool, int8, text } from '../../../postgres/statement.js';
import { type Answer, asks, asksOne } from '../../reading/asks.js';
import { span } from '../../reading/words.js';
import { type Finding, lines, ok, problem } from '../doctor.js';

export const readSlots = asks({
  name: 'doctor_slots',
  text: `
SELECT s.slot_name::text AS name, s.active, s.wal_status,
  pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
    s.restart_lsn)::bigint AS bytes
FROM pg_replication_slots AS s
ORDER BY 4 DESC NULLS LAST
LIMIT 50`,
  columns: { name: text, active: bool, wal_status: text.orNull, bytes: int8.orNull },
});

export const readArchiver = asksOne({
  name: 'doctor_archiver',
  text: `
SELECT current_setting('archive_mode') <> 'off' AS archives, coalesce(a.last_failed_wal, '') AS wal,
  -- The last word of the archiver was a failure.
  coalesce(a.last_failed_time > coalesce(a.last_archived_time, '-infinity'), false) AS failing,
  coalesce((extract(epoch FROM clock_timestamp() - a.last_archived_time) * 1000)::bigint, 0) AS archived_ms
FROM pg_stat_archiver AS a`,
  columns: { archives: bool, wal: text, failing: bool, archived_ms: int8 },
});

/** For members of pg_monitor. */
export const readWal = asksOne({
  name: 'doctor_wal',
  text: `
SELECT coalesce(sum(w.size), 0)::bigint AS bytes,
  (SELECT s.setting::bigint * 1024 * 1024 FROM pg_settings AS s WHERE s.name = 'max_wal_size') AS wanted
FROM pg_ls_waldir() AS w`,
  columns: { bytes: int8, wanted: int8 },
});

const CHECK = 'WAL';
const GB = 1024 ** 3;
/** What a slot that nobody reads may hold back. */
const SLOT_BYTES = GB;
/** What one that is read may be behind. */
const ACTIVE_BYTES = 10 * GB;
/** So many times the size that the server aims at, and at least this more. */
const TIMES = 3;

const size = (bytes: number) =>
  bytes >= GB ? `${(bytes / GB).toFixed(1)} GB` : `${Math.round(bytes / 1024 / 1024)} MB`;

const FILLS =
  'The disk fills. When it is full the server stops, and nothing is enqueued or settled.';

export function judgeSlots(slots: readonly Answer<typeof readSlots>[]): Finding[] {
  return slots.flatMap(({ name, active, walStatus, bytes }) => {
    const behind = (bytes ?? 0) > (active ? ACTIVE_BYTES : SLOT_BYTES);
    if (walStatus !== 'unreserved' && walStatus !== 'lost' && !behind) return [];
    const state = active ? 'is read, but too slowly' : 'is read by nobody';
    const text =
      walStatus === 'lost'
        ? `The replication slot ${name} has lost the WAL that its reader needs.`
        : `The replication slot ${name} ${state} and holds ${size(bytes ?? 0)} of WAL.`;
    const fix = lines(
      active
        ? 'Make its reader faster. If it is not needed, stop it, then:'
        : 'Start again who reads it. If he is gone for good:',
      `SELECT pg_drop_replication_slot(${quoteLiteral(name)});`,
    );
    const why = walStatus === 'lost' ? 'What reads it has to be made anew.' : FILLS;
    return [problem(CHECK, text, why, fix)];
  });
}

export function judgeArchiver({ archives, failing, wal, archivedMs }: Answer<typeof readArchiver>) {
  if (!archives || !failing) return [];
  const since =
    archivedMs === 0
      ? 'none was archived yet'
      : `the last one was archived ${span(archivedMs)} ago`;
  return [
    problem(
      CHECK,
      `The server cannot archive its WAL: ${wal} failed, and ${since}.`,
      `Every segment is kept until it is archived, and backups end there. ${FILLS}`,
      "Mend archive_command or archive_library: the server's log says why it fails.",
    ),
  ];
}

export function judgeWal({ bytes, wanted }: Answer<typeof readWal>): Finding[] {
  if (bytes < TIMES * wanted || bytes < wanted + 2 * GB)
    return [ok(CHECK, `${size(bytes)} of ${size(wanted)}`)];
  return [
    problem(
      CHECK,
      `pg_wal has ${size(bytes)}, and max_wal_size is ${size(wanted)}.`,
      FILLS,
      'Something holds it: a slot, an archive_command that fails (both are said here), wal_keep_size, or a checkpoint that does not end.',
    ),
  ];
}
