/** `holdfast import`: what it says of names and fields that are not there, and its row in the audit. */
import { readFileSync } from 'node:fs';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { call } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';

const db = testDatabase();
const cli = (source: string, ...args: string[]) =>
  call(['import', source, '--url', db.url, ...args]);
const count = async (table: string) =>
  (await db.rows<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`))[0]?.n;
const plant = (data: object) =>
  db.rows(
    `INSERT INTO pgboss.job (name, data, policy) VALUES ('send_receipt', $1::jsonb, 'standard')`,
    [JSON.stringify(data)],
  );

beforeAll(async () => {
  for (const name of ['pg-boss', 'graphile-worker'])
    await db.rows(readFileSync(new URL(`../support/import/${name}.sql`, import.meta.url), 'utf8'));
  await db.rows(`
    INSERT INTO pgboss.queue (name, policy, retry_limit, retry_delay, retry_backoff, expire_seconds,
      retention_seconds, deletion_seconds, partition, table_name)
    VALUES ('send_receipt', 'standard', 2, 0, false, 900, 1209600, 604800, false, 'job_common')`);
  await db.rows(`INSERT INTO graphile_worker._private_tasks (identifier) VALUES ('resize')`);
});
beforeEach(async () => {
  await db.rows(`TRUNCATE pgboss.job, pgboss.schedule, holdfast.inbox, holdfast.inbox_idempotency,
    holdfast.schedules, holdfast.audit`);
});

test('a field of --key that no job has: the dry run says so, and --yes moves nothing', async () => {
  for (let n = 0; n < 9; n++) await plant({ orderId: n });
  await db.rows(`INSERT INTO pgboss.schedule (name, key, kind, cron, timezone)
    VALUES ('send_receipt', '', 'cron', '0 3 * * *', 'UTC')`);
  const key = ['--key', 'order:{orderID}', '--batch', '4'];
  const dry = await cli('pg-boss', ...key);
  const said = '9 of 9 jobs have no field orderID, so they get no key';
  expect(dry).toMatchObject({ code: 0, err: expect.stringContaining(`Warning: ${said}.`) });
  expect(dry.err).toContain('1 schedule: no field orderID in its payload');
  const refused = await cli('pg-boss', ...key, '--yes');
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining(`${said}. Nothing`) });
  const left = ['pgboss.job', 'pgboss.schedule', 'holdfast.inbox', 'holdfast.schedules'];
  expect(await Promise.all(left.map(count))).toEqual([9, 1, 0, 0]);
});

test('a field of --key that some jobs have: all move, and those without it are counted', async () => {
  for (const data of [{ of: null }, { of: { tenant: true } }, { of: { tenant: 't' } }])
    await plant(data);
  const { code, err } = await cli('pg-boss', '--key', '{of.tenant}', '--batch', '1', '--yes');
  expect([code, err]).toEqual([0, expect.stringContaining('3 jobs and 0 schedules moved')]);
  expect(err).toContain('1 of 3 jobs has no field of.tenant, so it gets no key.');
  expect(err).toContain('1 of 3 jobs has no text or number in the field of.tenant');
  expect(await count(`holdfast.inbox WHERE partition_key = 't'`)).toBe(1);
});

test('a name of --only that is not there is said, with the one that was meant', async () => {
  await plant({});
  const boss = await cli('pg-boss', '--only', 'send_receip', '--only', 'send_receipt');
  expect(boss.err).toContain(
    'there is no queue or task "send_receip" there. Did you mean "send_receipt"?',
  );
  expect(boss.err).toContain('would move 1 job');
  expect(boss.err).not.toContain('no queue or task "send_receipt"');
  const task = await cli('graphile-worker', '--only', 'resise');
  expect(task.err).toContain('there is no queue or task "resise" there. Did you mean "resize"?');
});

test.each([['in the same database'], ['through another connection', '--from']])(
  'a run leaves one row in the audit, %s: how many jobs, from where, who and why',
  async (_, ...from) => {
    for (let n = 0; n < 5; n++) await plant({ n });
    const args = [...from.flatMap((option) => [option, db.url]), '--batch', '2'];
    await cli('pg-boss', ...args);
    expect(await count('holdfast.audit')).toBe(0);
    const moves = ['--yes', '--only', 'send_receipt', '--reason', 'the move'];
    expect((await cli('pg-boss', ...args, ...moves)).code).toBe(0);
    await cli('pg-boss', ...args, ...moves);
    const { acts } = await db.hf.audit({ act: 'import' });
    expect(acts).toHaveLength(1);
    expect(acts[0]).toMatchObject({
      ...{ queue: 'inbox', jobs: 5, reason: 'the move', actor: expect.stringContaining('@') },
      ...{ filter: { only: ['send_receipt'] }, changes: { from: 'pg-boss' } },
    });
  },
);
