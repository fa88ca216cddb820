/**
 * The test kit from the packed package, in a folder of a user: one small test file for each runner, on PGlite.
 * Nothing is closed in it, so a runner that does not end by itself would be seen.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';

const TOOLS = fileURLToPath(new URL('../../.bundlers', import.meta.url));
const bin = (name: string) => join(TOOLS, 'node_modules', name);

/** `same` compares strictly and `fails` waits for an error, as the runner does it. */
const BODY = `
const receipt = job('send_receipt', { maxAttempts: 3 });

test('an attempt, and what it enqueued', async () => {
  const handler = async ({ payload, once, enqueue }) => {
    await once('mail', () => 'message-1');
    await enqueue(receipt, { orderId: payload.orderId + 1 }, { delay: '1h' });
  };
  const result = await testJob(receipt, handler, { orderId: 1 });
  same(result.outcome, 'completed');
  same(result.effects, { mail: 'message-1' });
  same(result.enqueued.map(({ payload }) => payload), [{ orderId: 2 }]);
  await expectEnqueued({ type: receipt, payload: { orderId: 2 } });
  await fails(expectNotEnqueued({ type: receipt }), /should not be/);
});

test('tables of the user, an error of the database, and time that moves', async () => {
  const { hf, pool } = await startPglite();
  await pool.query('CREATE TABLE receipts (id bigint PRIMARY KEY, at timestamptz)');
  const insert = 'INSERT INTO receipts VALUES ($1, $2)';
  const worker = hf.worker().handle(receipt, ({ payload, transaction }) =>
    transaction((tx) => tx.query(insert, [payload.orderId, new Date(0)])));
  await hf.enqueue(receipt, { orderId: 1 }, { delay: '1d' });
  same((await drain(hf, { worker })).completed, 1);
  same((await pool.query('SELECT * FROM receipts')).rows, [{ id: '1', at: new Date(0) }]);
  const error = await pool.query(insert, [1, null]).catch((reason) => reason);
  same([error instanceof Error, error.code, error.constraint], [true, '23505', 'receipts_pkey']);
});

test('a naive handler is caught', async () => {
  let mails = 0;
  const naive = () => { mails++; };
  const tried = survivesFaults(receipt, naive, { orderId: 1 }, { effect: () => mails });
  await fails(tried, /2 × instead of 1 ×/);
});
`;
const NAMES = 'drain, expectEnqueued, expectNotEnqueued, startPglite, survivesFaults, testJob';
const IMPORTS = `import { job } from 'holdfast';\nimport { ${NAMES} } from '@holdfast/testing';\n`;
const REQUIRES = `const { job } = require('holdfast');\nconst { ${NAMES} } = require('@holdfast/testing');\n`;
const EXPECT = `const same = (value, wanted) => expect(value).toStrictEqual(wanted);
const fails = (made, text) => expect(made).rejects.toThrow(text);\n`;
const ASSERT = `import assert from 'node:assert/strict';\nimport { test } from 'node:test';
const same = assert.deepStrictEqual, fails = assert.rejects;\n`;

function run(type: string, name: string, text: string, args: readonly string[], flags = '') {
  const cwd = mkdtempSync(join(tmpdir(), 'holdfast-kit-'));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  symlinkSync(join(TOOLS, 'node_modules'), join(cwd, 'node_modules'));
  // Jest has no other way to load an ES module with require.
  const preset = type === 'commonjs' && { preset: '@holdfast/testing' };
  const manifest = { type, jest: { ...preset, transform: {}, testTimeout: 60_000 } };
  writeFileSync(join(cwd, 'package.json'), JSON.stringify(manifest));
  // Two files, which runners run at the same time.
  for (const file of [name, `other-${name}`]) writeFileSync(join(cwd, file), text);
  const env = { ...process.env, NODE_OPTIONS: flags, CI: '1' };
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd,
    env,
    encoding: 'utf8',
  });
  return { status, text: `${stdout}${stderr}` };
}

const RUNNERS = {
  Vitest: () =>
    run(
      'module',
      'kit.test.js',
      `import { expect, test } from 'vitest';\n${IMPORTS}${EXPECT}${BODY}`,
      [bin('vitest/vitest.mjs'), 'run', '--testTimeout', '60000'],
    ),
  'Jest with CommonJS': () =>
    run('commonjs', 'kit.test.js', `${REQUIRES}${EXPECT}${BODY}`, [bin('jest/bin/jest.js')]),
  'Jest with ES modules': () =>
    run(
      'module',
      'kit.test.js',
      `${IMPORTS}${EXPECT}${BODY}`,
      [bin('jest/bin/jest.js')],
      '--experimental-vm-modules',
    ),
  'node:test': () => run('module', 'kit.test.js', `${ASSERT}${IMPORTS}${BODY}`, ['--test']),
};

test.each(Object.keys(RUNNERS) as (keyof typeof RUNNERS)[])('%s', { timeout: 300_000 }, (name) => {
  const { status, text } = RUNNERS[name]();
  expect(text).toMatch(/(6 passed|# pass 6|pass 6)/);
  expect(text).not.toMatch(/did not exit|open handle|force exited|Cannot log after/i);
  expect(status).toBe(0);
});
