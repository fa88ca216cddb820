/** The schema is not what the migrations made. */
import type { Incident } from '../incident.js';

export const SCHEMA: readonly Incident[] = [
  {
    symptom: 'new jobs are found by polls only',
    cause: 'the trigger that wakes workers was disabled',
    async happens(site) {
      await site.sql('ALTER TABLE holdfast.inbox DISABLE TRIGGER wake');
    },
    doctor: { check: 'schema drift', says: /trigger inbox.wake|wake/ },
    compared: true,
    fix: 'printed',
  },
  {
    symptom: 'after a crash of the server a queue is empty',
    cause: 'its table was made unlogged',
    async happens(site) {
      await site.sql('ALTER TABLE holdfast.inbox SET UNLOGGED');
    },
    doctor: { check: 'unlogged tables', says: /holdfast.inbox/ },
    fix: 'printed',
  },
  {
    symptom: 'claims read the whole table',
    cause: 'an index was dropped',
    async happens(site) {
      const [row] = await site.sql<{ name: string }>(
        `SELECT indexrelid::regclass::text AS name FROM pg_index AS x
         WHERE indrelid = 'holdfast.inbox'::regclass AND NOT indisunique ORDER BY 1 LIMIT 1`,
      );
      await site.sql(`DROP INDEX ${row?.name}`);
    },
    doctor: { check: 'schema drift', says: /index/i },
    compared: true,
    fix: 'printed',
  },
  {
    symptom: 'a function of the schema does something else',
    cause: 'somebody replaced it',
    async happens(site) {
      await site.sql(
        `CREATE OR REPLACE FUNCTION holdfast.bucket_of(key text) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
         AS 'SELECT abs(holdfast.hash32(key) % 1024)::integer'`,
      );
    },
    doctor: { check: 'schema drift', says: /bucket_of/ },
    compared: true,
    fix: {
      does: 'create it again as printed',
      async act(site) {
        const found = (await site.findings(true)).find(({ check }) => check === 'schema drift');
        await site.sql((found?.fix ?? '').replace(/^[^\n]*\n(?=CREATE)/, ''));
      },
    },
  },
  {
    symptom: 'workers of the older release do not start',
    cause: 'a newer release has migrated the schema',
    async happens(site) {
      await site.sql(
        `INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (9000, 'tomorrow', 9000)`,
      );
    },
    doctor: { check: 'schema', says: /newer|9000|migration/ },
    fix: {
      does: 'deploy the newer release',
      act: (site) => site.sql('DELETE FROM holdfast.migrations WHERE id = 9000'),
    },
  },
];
