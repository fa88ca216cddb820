/**
 * The `holdfast` command as a user runs it: the compiled program in a process of its own (`run`, `start`,
 * `inTerminal`). `call` is the same without the process, for what needs none.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { onTestFinished } from 'vitest';
import type { Streams } from '../../packages/holdfast/src/cli/print/output.js';
import { runCommand } from '../../packages/holdfast/src/cli/run.js';

export const MAIN = fileURLToPath(new URL('../../packages/holdfast/dist/cli.js', import.meta.url));

export interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  readonly env?: Record<string, string>;
  readonly cwd?: string;
  readonly stdin?: string;
  /** Arguments for Node itself. */
  readonly node?: readonly string[];
  /** The program, if it is not that of this checkout. */
  readonly main?: string;
}

export interface Running {
  readonly child: ChildProcess;
  /** What was printed so far. */
  readonly seen: { out: string; err: string };
  readonly ended: Promise<Ran>;
}

export function start(args: readonly string[], options: RunOptions = {}): Running {
  const child = spawn(process.execPath, [...(options.node ?? []), options.main ?? MAIN, ...args], {
    env: { PATH: process.env.PATH ?? '', ...options.env },
    ...(options.cwd && { cwd: options.cwd }),
  });
  const seen = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    seen.out += chunk;
  });
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    seen.err += chunk;
  });
  child.stdin.on('error', () => undefined);
  child.stdin.end(options.stdin ?? '');
  const ended = new Promise<Ran>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, ...seen }));
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return { child, seen, ended };
}

export const run = (args: readonly string[], options: RunOptions = {}): Promise<Ran> =>
  start(args, options).ended;

const IN_TURN = `
  import { runCommand } from ${JSON.stringify(new URL('../../packages/holdfast/build/cli/run.js', import.meta.url).href)};
  const ran = [];
  for (const { args, cwd } of JSON.parse(process.argv[1])) {
    process.chdir(cwd);
    const seen = { out: '', err: '' };
    const sink = (name) => ({ write: (text) => ((seen[name] += text), true) });
    const streams = { stdout: sink('out'), stderr: sink('err'), env: process.env };
    const code = await runCommand(args, streams, () => new AbortController().signal);
    ran.push({ code, ...seen });
  }
  console.log(JSON.stringify(ran));`;

/**
 * Commands that end by themselves, one after the other in one process, each in its folder: to start Node and to load
 * the program is nearly all that a short one costs.
 */
export async function runInTurn(
  commands: readonly { readonly args: readonly string[]; readonly cwd: string }[],
  env: Record<string, string>,
): Promise<Ran[]> {
  const args = ['--input-type=module', '--eval', IN_TURN, JSON.stringify(commands)];
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    env: { PATH: process.env.PATH ?? '', ...env },
  });
  return JSON.parse(stdout) as Ran[];
}

/** In this process: a tenth of the time. No standard input, no signals, no terminal. */
export async function call(
  args: readonly string[],
  options: Pick<RunOptions, 'env'> = {},
): Promise<Ran> {
  const seen = { out: '', err: '' };
  const sink = (name: keyof typeof seen) => ({
    write(text: string) {
      seen[name] += text;
      return true;
    },
  });
  const streams = { stdout: sink('out'), stderr: sink('err'), env: options.env ?? {} };
  const { signal } = new AbortController();
  const code = await runCommand(args, streams as unknown as Streams, () => signal);
  return { code, ...seen };
}

/** The lines of NDJSON. */
export function values<Value = Record<string, unknown>>(text: string): Value[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Value);
}

/** In a terminal of its own, made by util-linux's script; what comes back is what a person sees. */
export function inTerminal(
  args: readonly string[],
  env: Record<string, string>,
  keys = '',
): Promise<Ran> {
  const command = [process.execPath, MAIN, ...args].map((word) => `'${word}'`).join(' ');
  const child = spawn('script', ['-qefc', `stty cols 120 rows 40; ${command}`, '/dev/null'], {
    env: { PATH: process.env.PATH ?? '', TERM: 'xterm', ...env },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let out = '';
  let typed = false;
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    out += chunk;
    // Answers come when something was asked or drawn, as a person's do.
    if (!typed && keys !== '' && /\[y\/N\]|QUEUE/.test(out)) {
      typed = true;
      child.stdin.write(keys);
    }
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, out, err: '' }));
  });
}
