/** An embedded server that outlived everybody who could stop it is found, and named with its process id. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { identify } from '../../packages/embedded/src/server/processes.js';
import { judgeEmbedded } from '../../packages/holdfast/src/cli/commands/setup/doctor.js';
import { until } from '../support/until.js';

const ENTRY = new URL('../../packages/embedded/dist/index.js', import.meta.url).href;

test('orphaned, running and stopped are told apart', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-doctor-'));
  chmodSync(folder, 0o755);
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  expect(await judgeEmbedded(folder)).toEqual([]);

  const script = `import { startEmbedded } from ${JSON.stringify(ENTRY)};
    const { pid } = await startEmbedded(); console.log(pid); setInterval(() => {}, 1000)`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { cwd: folder });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const pid = Number(String(line));
  onTestFinished(() => {
    if (identify(pid)) process.kill(pid, 'SIGQUIT');
  });
  expect(await judgeEmbedded(folder)).toMatchObject([
    { level: 'ok', text: `running, supervised (pid ${pid})` },
  ]);

  const state = JSON.parse(readFileSync(join(folder, '.holdfast/postgres.state.json'), 'utf8'));
  process.kill(state.supervisor.pid, 'SIGKILL');
  await until('the supervisor is gone', () => identify(state.supervisor.pid) === undefined);
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(await judgeEmbedded(folder)).toMatchObject([
    {
      level: 'problem',
      text: expect.stringContaining(`(pid ${pid}) runs without a supervisor`),
      fix: expect.stringContaining(`kill -INT ${pid}`),
    },
  ]);

  process.kill(pid, 'SIGINT');
  await until('the server is gone', () => identify(pid) === undefined);
  expect(await judgeEmbedded(folder)).toMatchObject([
    { level: 'ok', text: 'none is running here' },
  ]);
}, 120_000);
