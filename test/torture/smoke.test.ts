/**
 * A short torture: real processes, real faults, one fixed schedule. The long runs are `npm run torture`; this one
 * sees that the harness works and that nothing obvious is broken.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';

const MAIN = fileURLToPath(new URL('../../torture/main.mjs', import.meta.url));

function torture(args: readonly string[]): Promise<{ code: number | null; said: string }> {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data) => {
      said += data;
    });
  }
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, said })));
}

// The seed is one that strikes each of the three within 6 s: half-close, terminate-backends, kill.
test('workers, network and database fail for 6 s, and every promise is kept', async () => {
  const keep = mkdtempSync(join(tmpdir(), 'holdfast-torture-'));
  onTestFinished(() => rmSync(keep, { recursive: true, force: true }));
  const { code, said } = await torture([
    ...['--smoke', '--minutes', '0.1', '--seed', 'smoke-39', '--rate', '20', '--workers', '3'],
    ...['--profile', 'worker+network+database', '--keep', keep],
  ]);
  expect(code, said).toBe(0);
  expect(said).toMatch(/verdict: 0 violations/);
  expect(Number(/accepted: (\d+)/.exec(said)?.[1])).toBeGreaterThan(100);
  for (const fault of ['half-close', 'terminate-backends', 'kill'])
    expect(said).toMatch(new RegExp(`\\d faults:.*\\b${fault} 1`));
}, 240_000);
