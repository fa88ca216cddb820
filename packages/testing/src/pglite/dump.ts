/**
 * The files of a PGlite, from which another one starts in place of running initdb, which takes seconds. They hold the one
 * database that is connected to, and as little of the write-ahead log as can be.
 */
import { quoteName } from 'holdfast/internal';
import type { PgliteLike } from './session.js';

/** For initdb. */
export const INITDB = [
  // Less to keep and to load: segments of 1 MB instead of 16, removed when they are over, and made when they are needed.
  ...['--wal-segsize=1', '--set=wal_recycle=off', '--set=wal_init_zero=off'],
  // Memory that Postgres clears at every start; by default it would be 128 MB.
  '--set=shared_buffers=16MB',
  // At a start from the files Postgres recovers, and would leave a timer that never ends.
  '--set=log_startup_progress_interval=0',
];

interface Dumped<Files> extends Pick<PgliteLike, 'query' | 'exec'> {
  dumpDataDir(compression: 'none'): Promise<Files>;
}

export async function dumpFiles<Files>(pglite: Dumped<Files>): Promise<Files> {
  const others = 'SELECT datname AS name FROM pg_database WHERE datname <> current_database()';
  const { rows } = await pglite.query(others);
  await pglite.exec('UPDATE pg_database SET datistemplate = false');
  for (const { name } of rows as { name: string }[]) {
    await pglite.exec(`DROP DATABASE ${quoteName(name)}`);
  }
  // What is left of the log is a segment that is nearly empty.
  await pglite.exec('SELECT pg_switch_wal()');
  await pglite.exec('CHECKPOINT');
  return pglite.dumpDataDir('none');
}
