/**
 * The texts of statements as the simulated server runs them: whoever tries an advisory lock or reads `pg_locks` asks the
 * server's own list of locks, in the setting `sim.locks`, instead of Postgres' own.
 */
import { hash32 } from 'holdfast';
import { FUNCTIONS, MIGRATIONS } from 'holdfast/internal';

const HELD = `pg_catalog.string_to_array(pg_catalog.current_setting('sim.locks'), ',')`;
const TRIED = /(?:pg_catalog\.)?pg_try_advisory(?:_xact)?_lock\(([^,()]+), ([^,()]+)\)/g;
const UNLOCKED = /pg_catalog\.pg_advisory_unlock\([^,()]+, [^,()]+\)/g;
const ALL_LOCKS = /pg_catalog\.pg_locks AS l\b/g;

export function modelled(text: string): string {
  return text
    .replace(TRIED, `(NOT pg_catalog.concat($1, ':', $2) OPERATOR(pg_catalog.=) ANY (${HELD}))`)
    .replace(UNLOCKED, 'true')
    .replace(
      ALL_LOCKS,
      `(SELECT 'advisory' AS locktype, split_part(held, ':', 1)::integer::oid AS classid,
        split_part(held, ':', 2)::integer::oid AS objid, 2 AS objsubid, 'ShareLock' AS mode, true AS granted,
        (SELECT oid FROM pg_database WHERE datname = current_database()) AS database
      FROM unnest(${HELD}) AS held) AS l`,
    );
}

/** Of what the tables are made of. It is kept with them: files of other tables than these are refused. */
export const DIGEST = String(
  hash32(
    [
      ...MIGRATIONS.map(({ common, perQueue }) => common + perQueue),
      ...FUNCTIONS.map(({ text }) => text),
    ]
      .map(modelled)
      .join('\n'),
  ),
);
