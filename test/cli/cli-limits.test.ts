/** `holdfast limits`: what is listed, set, reset and removed, for people and for programs. */
import { expect, test } from 'vitest';
import { plantJob, plantWorker } from '../support/cli-plant.js';
import { call, values } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { limitStep } from '../support/limited.js';

const db = testDatabase();
const cli = (...args: string[]) => call(['limits', ...args], { env: { DATABASE_URL: db.url } });

test('limits are listed, set beside what code declares, reset and removed', async () => {
  await limitStep(db, { concurrency: 20, rate: { limit: 100, perMs: 60_000, burst: 20 } });
  const set = await cli('set', 'step', '--concurrency', '5', '--reason', 'slow upstream');
  expect(set).toMatchObject({
    code: 0,
    out: '5 at once, 100/1 min, burst 20 (was 20 at once, 100/1 min, burst 20)\n',
  });
  expect(set.err).toContain('Deploys do not change it');
  const [listed, json] = await Promise.all([cli('ls'), cli('ls', '--queue', 'inbox', '--json')]);
  expect(listed.out).toMatch(/^QUEUE +TYPE +RUNNING +RATE/);
  expect(listed.out).toMatch(
    /\ninbox +step +0 of 5 +100\/1 min, burst 20 +0 +- +an operator +20 at once, 100\/1 min, burst 20/,
  );
  expect(values(json.out)).toMatchObject([
    { type: 'step', concurrency: 5, overridden: true, declared: { concurrency: 20 }, running: 0 },
  ]);

  const none = await cli('set', 'step', '--rate', 'none', '--json');
  expect(values(none.out)).toMatchObject([{ after: { concurrency: 5, rate: null } }]);
  const off = await cli('set', 'step', '--concurrency', 'none');
  expect(off.err).toContain('is off, whatever code declares. Deploys');
  const whole = await cli('set', '--rate', '10/1s', '--burst', '3');
  expect(whole.out).toBe('10/1 s, burst 3 (was none)\n');
  expect(await cli('reset', 'step')).toMatchObject({ code: 0 });
  expect((await cli('ls')).out).toMatch(/\ninbox +\(all\) +0 +10\/1 s, burst 3 +0 +- +an operator/);
  expect(await cli('rm', '--yes')).toMatchObject({ code: 0, out: 'none (was 10/1 s, burst 3)\n' });
  expect(await cli('rm', 'step', '--yes')).toMatchObject({ code: 0 });
  expect((await cli('ls')).err).toContain('There is no limit.');

  const { acts } = await db.hf.audit();
  expect(acts.map(({ act, reason }) => [act, reason]).reverse()).toEqual([
    ['set_limit', 'slow upstream'],
    ['set_limit', null],
    ['set_limit', null],
    ['set_limit', null],
    ['reset_limit', null],
    ['remove_limit', null],
    ['remove_limit', null],
  ]);
});

test('a type or a key that nobody knows is named, with the one that was meant', async () => {
  await plantWorker(db, { id: 'w1', handles: { inbox: { receipt: 1 } } });
  await plantJob(db, { type: 'step', key: 'tenant:1' });
  const queues = (...args: string[]) =>
    call(['queues', ...args], { env: { DATABASE_URL: db.url } });
  const typo = await cli('set', 'reciept', '--concurrency', '1');
  expect(typo).toMatchObject({ code: 0, err: expect.stringMatching(/mistyped.*mean "receipt"/) });
  expect((await cli('set', 'receipt', '--concurrency', '1')).err).not.toContain('mistyped');
  const pauses = [
    ['--type', 'stpe', 'no live worker handles it and no such job was found. Did you mean "step"?'],
    ['--partition-key', 'tenant1', 'no such job was found. Did you mean "tenant:1"?'],
  ] as const;
  for (const [option, name, said] of pauses)
    expect((await queues('pause', 'inbox', option, name)).err).toContain(said);
  expect((await queues('resume', 'inbox', '--type', 'step')).err).toContain('mean "stpe"?');
  for (const part of [
    ['--type', 'step'],
    ['--partition-key', 'tenant:1'],
  ])
    expect((await queues('pause', 'inbox', ...part)).err).not.toContain('mistyped');
});

test.each<[string, string[], RegExp]>([
  ['nothing to set', ['set', 'step'], /Say what to set/],
  ['a concurrency of 0', ['set', 'step', '--concurrency', '0'], /whole number of at least 1/],
  ['a rate without a time', ['set', 'step', '--rate', '100'], /N\/TIME, such as 100\/1m/],
  ['a time that is none', ['set', 'step', '--rate', '100/soon'], /duration from 1 ms to 365 days/],
  ['a burst alone', ['set', 'step', '--burst', '5'], /about a rate/],
  ['a type that is no name', ['set', '1x', '--concurrency', '1'], /job type/],
  ['a negative concurrency', ['set', 'step', '--concurrency', '-3'], /of at least 1, not "-3"/],
  ['a limit that is not there', ['reset', 'nothing'], /has no limit.*holdfast limits ls/],
  ['a queue that is not there', ['set', '--queue', 'nowhere', '--concurrency', '1'], /nowhere/],
])('%s is refused', async (_, args, reason) => {
  const { code, err } = await cli(...args);
  expect(code).not.toBe(0);
  expect(err).toMatch(reason);
});
