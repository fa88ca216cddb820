/** `holdfast schedules`: what is listed and shown, for people and for programs, and what each verb does. */
import { expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { call, inTerminal, values } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';

const db = testDatabase();
const report = job<{ to: string }>('report');
const cli = (...args: string[]) => call(['schedules', ...args], { env: { DATABASE_URL: db.url } });

test('a schedule is listed, shown, paused, resumed, run and deleted', async () => {
  const payload = { to: 'ops' };
  await db.hf.schedules.declare('billing', {
    daily: { cron: '0 9 * * *', timezone: 'Europe/Lisbon', job: report, payload },
  });
  await db.hf.schedule('tenant:1', { every: '1h', job: report, payload, overlap: 'skip' });

  const [listed, json, shown] = await Promise.all([
    cli('ls'),
    cli('ls', '--prefix', 'tenant:', '--json'),
    cli('show', 'daily', '--json'),
  ]);
  expect(listed.out).toMatch(/^SCHEDULE +QUEUE +TYPE +WHEN/);
  expect(listed.out).toMatch(
    /\ndaily +inbox +report +0 9 \* \* \* Europe\/Lisbon +in .* billing +on/,
  );
  expect(listed.out).toMatch(/\ntenant:1 +inbox +report +every 1 h/);
  expect(values(json.out)).toMatchObject([{ name: 'tenant:1', everyMs: 3_600_000, paused: false }]);
  const [daily] = values<{ nextInstant: string; upcoming: string[] }>(shown.out);
  expect(daily?.upcoming).toHaveLength(3);
  expect(daily?.upcoming[0]).toBe(daily?.nextInstant);
  // A payload is shown only where it is asked for.
  expect(shown.out).not.toContain('ops');

  const paused = await cli('pause', 'daily');
  expect(paused).toMatchObject({ code: 0, out: 'daily\n' });
  expect((await db.hf.schedules.get('daily')).paused).toBe(true);
  expect((await cli('resume', 'daily')).err).toContain('not caught up');
  expect((await db.hf.schedules.get('daily')).paused).toBe(false);

  const ran = await cli('run', 'tenant:1');
  expect(await db.hf.job(ran.out.trim())).toMatchObject({ type: 'report', status: 'pending' });
  const again = await cli('run', 'tenant:1', '--json');
  expect(values(again.out)).toEqual([{ schedule: 'tenant:1', id: ran.out.trim(), skipped: true }]);

  expect(await cli('delete', 'daly', '--yes')).toMatchObject({
    ...{ code: 1, err: expect.stringContaining('Did you mean "daily"') },
  });
  const deleted = await cli('delete', 'daily', '--yes', '--reason', 'moved');
  expect(deleted.err).toContain('"billing" declares it in code');
  const { acts } = await db.hf.audit();
  expect(acts.map(({ act, changes, reason }) => [act, changes, reason])).toEqual([
    ['delete_schedule', { schedule: 'daily' }, 'moved'],
    ['run_schedule', { schedule: 'tenant:1' }, null],
    ['resume_schedule', { schedule: 'daily' }, null],
    ['pause_schedule', { schedule: 'daily' }, null],
  ]);
  expect((await db.hf.schedules.list()).schedules.map(({ name }) => name)).toEqual(['tenant:1']);
});

test('no means no, also for whoever reads the exit code', async () => {
  await db.hf.schedule('kept', { every: '1h', job: report, payload: { to: 'ops' } });
  const env = { DATABASE_URL: db.url, NO_COLOR: '1' };
  expect((await inTerminal(['schedules', 'delete', 'kept'], env, 'n\r')).code).toBe(1);
  expect((await inTerminal(['limits', 'rm', 'report'], env, 'n\r')).code).toBe(1);
  expect((await db.hf.schedules.get('kept')).paused).toBe(false);
});
