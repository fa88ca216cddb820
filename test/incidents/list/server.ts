/** The server and its settings. */
import { until } from '../../support/until.js';
import type { Incident } from '../incident.js';
import type { Site } from '../site.js';

const reload = 'SELECT pg_reload_conf()';
const set = async (site: Site, name: string, value: string) => {
  await site.sql(`ALTER SYSTEM SET ${name} = ${value}`);
  await site.sql(reload);
  await until(`${name} holds`, async () => {
    const [row] = await site.sql<{ value: string }>('SELECT current_setting($1) AS value', [name]);
    return row?.value === value.replaceAll("'", '');
  });
};

export const SERVER: readonly Incident[] = [
  {
    symptom: 'accepted jobs are gone after a crash of the server',
    cause: 'fsync is off',
    happens: (site) => set(site, 'fsync', 'off'),
    doctor: { check: 'fsync', says: /fsync is off/ },
    fix: 'printed',
  },
  {
    symptom: 'pages are torn after a crash of the server',
    cause: 'full_page_writes is off',
    happens: (site) => set(site, 'full_page_writes', 'off'),
    doctor: { check: 'full_page_writes', says: /off/ },
    fix: 'printed',
  },
  {
    symptom: 'the last second of accepted jobs is gone after a crash',
    cause: 'synchronous_commit is off',
    happens: (site) => set(site, 'synchronous_commit', 'off'),
    doctor: { check: 'synchronous_commit', says: /off/ },
    fix: 'printed',
  },
  {
    symptom: 'claims get slower by the day',
    cause: 'autovacuum is off',
    happens: (site) => set(site, 'autovacuum', 'off'),
    doctor: { check: 'autovacuum', says: /off/ },
    fix: 'printed',
  },
  {
    symptom: 'every write fails',
    cause: 'the database is read-only by default',
    happens: (site) => set(site, 'default_transaction_read_only', 'on'),
    doctor: { check: 'read only', says: /on/ },
    fix: 'printed',
  },
  {
    symptom: 'workers cannot connect',
    cause: 'the connections of their role are used up',
    async happens(site) {
      const [{ used } = { used: 0 }] = await site.sql<{ used: number }>(
        `SELECT count(*)::int AS used FROM pg_stat_activity WHERE usename = 'app_worker'`,
      );
      await site.sql(`ALTER ROLE app_worker CONNECTION LIMIT ${used}`);
    },
    doctor: { check: 'connections', says: /role "app_worker"/ },
    fix: 'printed',
  },
  {
    symptom: 'nobody can connect',
    cause: 'idle sessions use up the connections of the server',
    async happens(site) {
      for (let n = 0; n < 36; n++) await site.session();
    },
    doctor: { check: 'connections', says: /connections/ },
    fix: {
      does: 'end the idle sessions',
      act: (site) =>
        site.sql(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'psql'`,
        ),
    },
  },
  {
    symptom: 'the disk fills',
    cause: 'a replication slot that nobody reads keeps the log',
    site: { settings: { wal_level: 'logical' } },
    async happens(site) {
      await site.sql(`SELECT pg_create_logical_replication_slot('forgotten', 'test_decoding')`);
      await site.sql(
        `SELECT pg_logical_emit_message(false, 'holdfast', repeat('x', 1000000)) FROM generate_series(1, 1100)`,
      );
    },
    doctor: { check: 'WAL', says: /forgotten/, level: 'problem' },
    fix: 'printed',
  },
  {
    symptom: 'the disk fills, and no slot is there',
    cause: 'the archive command fails',
    site: { settings: { archive_mode: 'on' } },
    async happens(site) {
      await set(site, 'archive_command', "'/bin/false'");
      await site.sql('SELECT pg_switch_wal()');
    },
    doctor: { check: 'WAL', says: /archiv/i },
    fix: {
      does: 'mend the archive command',
      async act(site) {
        await set(site, 'archive_command', "'/bin/true'");
        await site.sql('SELECT pg_switch_wal()');
        await site.sql(`SELECT pg_stat_reset_shared('archiver')`);
      },
    },
  },
  {
    symptom: 'payloads are in the log of the server',
    cause: 'slow statements are logged with their parameters',
    happens: (site) => set(site, 'log_min_duration_statement', '0'),
    doctor: {
      check: 'payloads in logs',
      says: /log_min_duration_statement|log_parameter/,
      level: 'problem',
    },
    fix: 'printed',
  },
];
