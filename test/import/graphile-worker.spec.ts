/** `holdfast import graphile-worker`, from tables that the real package of each version made and filled. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CRONTAB_OPTIONS } from '../../packages/holdfast/src/cli/commands/import/sources/crontab.js';
import * as fields from '../../packages/holdfast/src/cli/commands/import/sources/graphile-worker-row.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { COLUMNS, declarationsIn } from './columns.js';
import { done, importer } from './ground.js';

interface Utils {
  addJob(task: string, payload: unknown, spec?: object): Promise<{ id: string }>;
  withPgClient(work: (client: { query(text: string): Promise<unknown> }) => unknown): Promise<void>;
  migrate(): Promise<void>;
  release(): Promise<void>;
}

const CRONTAB = `
# comment
*/5 * * * * clean ?fill=1d&max=3&queue=tidy { "deep": true }
0 4 * * 1 weekly ?id=monday&priority=-1
0 4 * * * json5 {deep: true}
61 4 * * * broken
`;

describe.each([16, 17, 18])('graphile-worker 0.%i', (version) => {
  const db = testDatabase();
  const cli = importer(() => db.url, 'graphile-worker');
  let utils: Utils;
  beforeAll(async () => {
    const { makeWorkerUtils } = await import(`graphile-worker-${version}`);
    utils = await makeWorkerUtils({ connectionString: db.url });
    await utils.migrate();
    await db.hf.createQueue('orders', { ordering: 'key' });
  });
  afterAll(async () => {
    await utils?.release();
    // Its pool does not wait for its connections: one that is cut off later ends the process.
    await until('its connections are closed', async () => {
      const text = `SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = '' AND pid <> pg_backend_pid()`;
      return (await db.rows(text)).length === 0;
    });
  });

  test('no column and no option of a crontab line is unknown', async () => {
    for (const [table, known] of Object.entries({
      _private_jobs: fields.JOB,
      _private_job_queues: fields.QUEUE,
      _private_tasks: fields.TASK,
      _private_known_crontabs: fields.CRONTAB,
    })) {
      const rows = await db.rows<{ name: string }>(COLUMNS, [`graphile_worker.${table}`]);
      expect(rows.map(({ name }) => name).sort()).toEqual(Object.keys(known).sort());
    }
    const parser = declarationsIn(`graphile-worker-${version}/dist/crontab.js`);
    const options = parser.slice(parser.indexOf('matchers = {'), parser.indexOf('defaultPayload'));
    const names = [...options.matchAll(/^ +(\w+): \[/gm)].map(([, name]) => name as string);
    expect(names.sort()).toEqual(Object.keys(CRONTAB_OPTIONS).sort());
  });

  test('every field of a job arrives, in the order of its queue', async () => {
    const runAt = new Date(Date.now() + 3_600_000);
    await utils.addJob('ship', { n: 2 }, { queueName: 'order:1', priority: 0 });
    await utils.addJob('ship', { n: 1 }, { queueName: 'order:1', priority: -5 });
    await utils.addJob('bill', { n: 3 }, { runAt, maxAttempts: 7, jobKey: 'bill-3', priority: 9 });
    await utils.addJob('bill', [{ n: 4 }, { n: 5 }], { flags: ['slow'] });
    const failing = await utils.addJob('bill', { n: 6 }, { maxAttempts: 4 });
    const dead = await utils.addJob('bill', { n: 7 }, { maxAttempts: 1 });
    const active = await utils.addJob('bill', { n: 8 });
    await utils.addJob('ship', { n: 9 }, { queueName: 'order:2' });
    await db.rows(
      `UPDATE graphile_worker._private_jobs SET attempts = CASE id WHEN $1 THEN 2 ELSE 1 END, last_error = 'no paper'
       WHERE id IN ($1, $2)`,
      [failing.id, dead.id],
    );
    await db.rows(
      `UPDATE graphile_worker._private_jobs SET locked_at = now(), locked_by = 'w' WHERE id = $1`,
      [active.id],
    );
    await db.rows(
      `UPDATE graphile_worker._private_job_queues SET locked_at = now(), locked_by = 'w' WHERE queue_name = 'order:2'`,
    );

    const said = await done(
      cli('--queue', 'orders', '--map', 'ship=send_parcel', '--failed', '--yes'),
    );
    expect(said).toContain('6 jobs and 0 schedules moved; 2 jobs left there');
    expect(said).toMatch(/ship +waiting +1 +- +a job of its queue runs there/);
    expect(said).toMatch(/bill +active +1 +- +runs there/);
    expect(said).toContain(`1 job: ${fields.JOB.flags?.lost}`);
    expect(said).toContain(`2 jobs: ${fields.JOB.priority?.lost}`);
    expect(said).toContain(`6 jobs: ${fields.JOB.created_at?.lost}`);
    const jobs = await db.rows(`
      SELECT type, payload, priority, attempts, max_attempts, status, last_error, partition_key, available_at
      FROM holdfast.orders ORDER BY position`);
    expect(jobs).toMatchObject([
      {
        type: 'send_parcel',
        payload: { n: 1 },
        partition_key: 'order:1',
        priority: 1,
        max_attempts: 25,
      },
      { type: 'send_parcel', payload: { n: 2 }, partition_key: 'order:1', priority: 2 },
      { type: 'bill', payload: [{ n: 4 }, { n: 5 }] },
      {
        payload: { n: 6 },
        attempts: 2,
        max_attempts: 4,
        last_error: 'no paper',
        status: 'pending',
      },
      {
        payload: { n: 7 },
        attempts: 1,
        max_attempts: 1,
        last_error: 'no paper',
        status: 'dead_letter',
      },
      { payload: { n: 3 }, priority: 3, max_attempts: 7, available_at: runAt },
    ]);
    expect(await db.rows('SELECT type, key FROM holdfast.orders_unique')).toEqual([
      { type: 'bill', key: 'bill-3' },
    ]);
    expect(await db.rows('SELECT id FROM graphile_worker._private_jobs')).toHaveLength(2);
  });

  test('its crontab is in a file: the database only knows names', async () => {
    await db.rows(
      `INSERT INTO graphile_worker._private_known_crontabs VALUES ('clean', now(), now())`,
    );
    expect(await done(cli())).toMatch(/only knows the names of crontab lines.*clean \(last 2/);
    const file = join(mkdtempSync(join(tmpdir(), 'holdfast-crontab-')), 'crontab');
    writeFileSync(file, CRONTAB);
    const said = await done(cli('--crontab', file, '--yes'));
    expect(said).toContain('2 schedules moved');
    expect(said).toMatch(/json5 +schedule +1 +- +its payload is JSON5/);
    expect(said).toMatch(/broken +schedule +1 +- .*61 4/);
    const schedules = await db.rows(`
      SELECT name, type, cron, timezone, payload, partition_key, priority, max_attempts, catch_up FROM holdfast.schedules ORDER BY 1`);
    expect(schedules).toMatchObject([
      {
        name: 'clean',
        cron: '*/5 * * * *',
        timezone: 'UTC',
        payload: { deep: true },
        partition_key: 'tidy',
        max_attempts: 3,
        catch_up: 'all',
      },
      {
        name: 'weekly:monday',
        type: 'weekly',
        cron: '0 4 * * 1',
        priority: 1,
        payload: {},
        catch_up: 'none',
      },
    ]);
  });
});
