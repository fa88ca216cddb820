/** Starting: a database that is away is waited for, one that refuses us is an error. */
import { expect, inject, test } from 'vitest';
import { QUICK, startWorker } from '../support/child.js';
import { ground, jobs } from '../support/ground.js';
import { Line } from '../support/line.js';

test('a worker that starts before its database waits for it, and then works', async () => {
  const db = await ground();
  const { id } = await db.hf.enqueue(jobs.noop, {});
  const line = await Line.to(db.url);
  const worker = startWorker(line.url);
  await worker.hears('error', { what: 'starting', code: 'ECONNREFUSED' });
  expect(worker.heard('started')).toBeUndefined();
  await line.mend();
  await worker.hears('started');
  await db.completed(1);
  expect(await db.hf.job(id)).toMatchObject({ status: 'completed', attempts: 1 });
});

test('a worker that waits for its database stops when it is asked to', async () => {
  const line = await Line.to(inject('serverUrl'));
  const worker = startWorker(line.url);
  await worker.hears('error', { what: 'starting' });
  worker.signal('SIGTERM');
  expect(await worker.exited, worker.describe()).toEqual({ code: 0, signal: null });
});

test("a wrong password ends run() with Postgres' own error", async () => {
  const db = await ground();
  const url = new URL(db.url);
  url.password = 'wrong';
  const worker = startWorker(url.toString(), QUICK);
  const refused = await worker.hears('refused-start');
  expect(refused).toMatchObject({ code: '28P01', what: 'error' });
  expect(refused.message).toMatch(/password authentication failed/);
  expect(await worker.exited, worker.describe()).toEqual({ code: 3, signal: null });
});
