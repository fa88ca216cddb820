/** `holdfast incident` and `holdfast doctor --watch`: what one hands on at night, and what one looks at meanwhile. */
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import type { Streams } from '../../packages/holdfast/src/cli/print/output.js';
import { runCommand } from '../../packages/holdfast/src/cli/run.js';
import { plantJob, plantWorker } from '../support/cli-plant.js';
import { call } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';

const db = testDatabase();

test('the bundle has what is known, and nothing that is secret', async () => {
  const SECRET = 'canary-31c7';
  await db.hf.createQueue('orders', { ordering: 'key', deadLetters: 'hold' });
  const error = `Error: token ${SECRET} was refused`;
  const payload = { card: SECRET };
  await plantWorker(db, {
    ...{ id: 'w1', handles: { inbox: { send_receipt: 1 }, orders: { send_receipt: 1 } } },
    metadata: { host: 'box', concurrency: 2, apiKey: SECRET },
  });
  const history = [{ at: new Date(), outcome: 'dead_letter' }];
  const held = { queue: 'orders', key: 'order:1', payload };
  await plantJob(db, { ...held, status: 'dead_letter', error, history });
  await plantJob(db, { ...held, dueInMs: -3_600_000, error });
  const late = await plantJob(db, { payload, dueInMs: -3_600_000, error, attempts: 1 });
  await plantJob(db, { payload, status: 'processing', error });
  await db.hf.limits.set({ type: 'send_receipt' }, { concurrency: 5 });
  await db.hf.pause('orders', { type: 'fax', actor: 'ann', reason: 'the line is down' });
  const human = new pg.Client({ connectionString: db.url });
  await human.connect();
  onTestFinished(() => human.end());
  await human.query(
    `BEGIN; SELECT '${SECRET}' FROM holdfast.inbox WHERE id = '${late}' FOR UPDATE`,
  );
  const password = new URL(db.url).password;

  const folder = mkdtempSync(join(tmpdir(), 'holdfast-incident-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'incident.json');
  const env = { DATABASE_URL: db.url };
  expect(await call(['incident', '--out', file], { env })).toMatchObject({ code: 0 });
  const text = readFileSync(file, 'utf8');
  expect(text).not.toContain(SECRET);
  expect(text).not.toContain('postgres://');
  if (password) expect(text).not.toContain(`:${password}@`);
  // For its owner alone.
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const bundle = JSON.parse(text);
  expect(Object.keys(bundle)).toEqual([
    ...['made', 'server', 'settings', 'queues', 'doctor', 'oldest', 'workers', 'limits', 'locks'],
    ...['schedules', 'audit'],
  ]);
  for (const [name, part] of Object.entries(bundle))
    expect([name, part]).not.toEqual([name, { unreadable: expect.anything() }]);
  expect(bundle.doctor).toContainEqual(
    expect.objectContaining({ check: 'held keys', level: 'problem' }),
  );
  expect(bundle.oldest).toMatchObject([
    { queue: 'inbox', id: late, code: 'row_locked' },
    { queue: 'orders', code: 'key_held' },
  ]);
  expect(bundle.workers).toMatchObject([{ id: 'w1', host: 'box', concurrency: 2 }]);
  expect(bundle.audit).toContainEqual(expect.objectContaining({ act: 'pause', actor: 'ann' }));
  // What is there is not overwritten.
  const again = await call(['incident', '--out', file], { env });
  expect(again).toMatchObject({ code: 1, err: expect.stringContaining('is there already') });
  const printed = await call(['incident'], { env });
  expect(printed.out).toContain('\ndoctor\n');
  expect(printed.out).not.toContain(SECRET);
});

test('doctor --watch looks again and again; its exit code is that of the last look', async () => {
  await db.rows('TRUNCATE holdfast.inbox, holdfast.orders');
  await plantWorker(db, { id: 'w2', silentMs: 600_000 });
  const interrupt = new AbortController();
  const seen = { out: '', err: '' };
  const sink = (name: 'out' | 'err') => ({
    write: (text: string, written?: () => void) => {
      seen[name] += text;
      written?.();
      return true;
    },
  });
  const streams = { stdout: sink('out'), stderr: sink('err'), env: { DATABASE_URL: db.url } };
  const args = ['doctor', '--watch', '--every', '1s'];
  const ended = runCommand(args, streams as unknown as Streams, () => interrupt.signal);
  await until(
    'it has looked twice',
    () => (seen.out.match(/PROBLEM {2}workers: /g) ?? []).length >= 2,
  );
  expect(seen.out).not.toMatch(/^ok /m);
  interrupt.abort();
  expect(await ended).toBe(3);
});
