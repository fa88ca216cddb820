/** A database of the first release with jobs in its archive is migrated: nothing is lost, and nobody loses a right. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { pruneArchive } from '../../packages/holdfast/src/maintenance/prune.js';
import { engineExecutor } from '../../packages/holdfast/src/postgres/queryable.js';
import { migrate, pendingSql } from '../../packages/holdfast/src/schema/migrate.js';
import { age, archiveJobs, segments } from '../support/archive.js';
import { INBOX } from '../support/database.js';
import { asAdmin, emptyDatabases } from '../support/empty-database.js';
import { makeOldSchema } from '../support/upgrade/old-schema.js';

const makeDatabase = emptyDatabases();
const role = `archive_worker_${randomBytes(4).toString('hex')}`;
const open: pg.Client[] = [];
let client: pg.Client;
let url: string;

async function connect(): Promise<pg.Client> {
  const one = new pg.Client({ connectionString: url });
  await one.connect();
  open.push(one);
  return one;
}

const db = {
  rows: async (text: string, params?: unknown[]) =>
    (await client.query(text, params)).rows as never,
};

beforeEach(async () => {
  url = await makeDatabase();
  client = await connect();
  await makeOldSchema(client, ['outbox']);
  await archiveJobs(db, 500, '3 days');
  await archiveJobs(db, 20, '3 days', 'outbox');
});
afterAll(async () => {
  for (const one of open) await one.end();
  await asAdmin((admin) => admin.query(`DROP ROLE IF EXISTS ${role}`));
});

const contents = async () =>
  (
    await client.query(
      `SELECT to_jsonb(a) - '{segment,unique_key}'::text[] AS job FROM holdfast.inbox_archive AS a ORDER BY a.id`,
    )
  ).rows;

test('all jobs are in the first segment, which goes when the retention has passed since', async () => {
  const before = await contents();
  await migrate(client, 'holdfast');
  expect(await contents()).toEqual(before);
  expect(await segments(db)).toEqual({ 0: 500 });
  expect(await segments(db, 'outbox')).toEqual({ 0: 20 });
  const on = engineExecutor(client, { prepare: false });
  await pruneArchive(on, INBOX);
  await archiveJobs(db, 3);
  expect(await segments(db)).toEqual({ 0: 500, 1: 3 });
  await age(db, '7 days');
  expect(await pruneArchive(on, INBOX)).toBeGreaterThan(0);
  expect(await segments(db)).toMatchObject({ 1: 3 });
  expect(await segments(db)).not.toHaveProperty('0');
});

test('jobs are archived by those who hold the archive before, while and after it is migrated', async () => {
  await client.query(`CREATE ROLE ${role}; GRANT USAGE ON SCHEMA holdfast TO ${role};
    GRANT SELECT, INSERT, DELETE ON holdfast.inbox_archive TO ${role};
    GRANT SELECT, UPDATE (maintained_at) ON holdfast.queues TO ${role};
    GRANT SELECT (id) ON holdfast.inbox_archive TO PUBLIC;
    GRANT EXECUTE ON FUNCTION holdfast.new_id() TO ${role}`);
  const worker = await connect();
  await worker.query(`SET ROLE ${role}`);
  const insert = () =>
    archiveJobs(
      { rows: async (text, params) => (await worker.query(text, params)).rows as never },
      1,
    );
  let migrating = true;
  let written = 0;
  const writing = (async () => {
    for (; migrating; written++) await insert();
  })();
  await migrate(client, 'holdfast');
  migrating = false;
  await writing;
  await insert();
  expect(await contents()).toHaveLength(500 + written + 1);
  // And it may do its maintenance, without another grant.
  await worker.query('SELECT holdfast.inbox_prune_archive()');
  await insert();
  expect(await segments(db)).toEqual({ 0: 501 + written, 1: 1 });
  await client.query(`DROP OWNED BY ${role}`);
});

test('is refused while something is built upon the archive that would not follow', async () => {
  await client.query('CREATE VIEW public.mine AS SELECT id FROM holdfast.inbox_archive');
  await expect(migrate(client, 'holdfast')).rejects.toMatchObject({
    code: 'HF005',
    message: expect.stringContaining('view mine'),
  });
  // Nothing stands in the way of the workers that run.
  await archiveJobs(db, 1);
  await client.query('DROP VIEW public.mine');
  await migrate(client, 'holdfast');
  expect(await pendingSql(client, 'holdfast')).toBe('');
  expect(await contents()).toHaveLength(501);
});
