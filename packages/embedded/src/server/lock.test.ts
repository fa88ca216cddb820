import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { withLock } from './lock.js';
import { identify } from './processes.js';

const folder = fs.mkdtempSync(join(tmpdir(), 'holdfast-lock-'));
afterAll(() => fs.rmSync(folder, { recursive: true }));

test('never has two holders, however many want it', async () => {
  const file = join(folder, 'contended');
  let holders = 0;
  let most = 0;
  const work = async () => {
    most = Math.max(most, ++holders);
    await new Promise(setImmediate);
    holders--;
  };
  await Promise.all(Array.from({ length: 10 }, () => withLock(file, { waitMs: 30_000 }, work)));
  expect(most).toBe(1);
  expect(fs.readdirSync(folder)).toEqual([]);
});

test('is taken from a holder that died, also if its process id lives on', async () => {
  const file = join(folder, 'stale');
  const dead = { pid: spawnSync('true').pid, started: 'long ago' };
  const reused = { pid: process.pid, started: 'long ago' };
  for (const process of [dead, reused]) {
    fs.writeFileSync(file, JSON.stringify({ token: 'other', process }));
    expect(await withLock(file, { waitMs: 30_000 }, async () => 'mine')).toBe('mine');
  }
  expect(fs.existsSync(file)).toBe(false);
});

test('is not taken from a live holder: whoever waits too long is told who has it', async () => {
  const file = join(folder, 'held');
  const content = JSON.stringify({ token: 'other', process: identify(process.pid) });
  fs.writeFileSync(file, content);
  await expect(withLock(file, { waitMs: 200 }, async () => {})).rejects.toMatchObject({
    code: 'busy',
    message: expect.stringContaining(`pid ${process.pid}`),
  });
  expect(fs.readFileSync(file, 'utf8')).toBe(content);
});

test('is given back when the work fails', async () => {
  const file = join(folder, 'failed');
  const failure = new Error('no');
  await expect(withLock(file, { waitMs: 1_000 }, () => Promise.reject(failure))).rejects.toBe(
    failure,
  );
  expect(fs.existsSync(file)).toBe(false);
});
