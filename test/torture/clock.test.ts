/** A wrong clock of the torture is wrong in the whole process: also in a thread that is started from a text. */
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { wrongClock } from '../../torture/clock.mjs';

const HOUR_MS = 3_600_000;
/** It jumps by up to a minute. */
const JUMP_MS = 61_000;

/** The keeper of a worker is such a thread. */
const SCRIPT = `
const { Worker } = require('node:worker_threads');
const text = "require('node:worker_threads').parentPort.postMessage(Date.now())";
new Worker(text, { eval: true }).on('message', (thread) => console.log(JSON.stringify([Date.now(), thread])));
`;

test('the main thread and a thread that is started from a text are an hour ahead', () => {
  const { execArgv, env } = wrongClock(HOUR_MS);
  const from = Date.now();
  const { stdout, stderr } = spawnSync(process.execPath, [...execArgv, '-e', SCRIPT], {
    env: { ...process.env, ...env },
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  for (const told of JSON.parse(stdout) as number[]) {
    expect(told).toBeGreaterThan(from + HOUR_MS - JUMP_MS);
    expect(told).toBeLessThan(Date.now() + HOUR_MS + JUMP_MS);
  }
});
