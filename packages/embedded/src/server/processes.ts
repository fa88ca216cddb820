/**
 * Who is behind a process id. Ids are reused: a process is remembered together with the moment it started, and a
 * postmaster is recognised by its command line. A zombie counts as gone. On Linux /proc answers, elsewhere `ps`.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { basename, join } from 'node:path';

export interface ProcessIdentity {
  pid: number;
  /** When it started, in whatever form the system tells it: only good for comparing. */
  started: string;
}

const onLinux = process.platform === 'linux';

export function identify(pid: number): ProcessIdentity | undefined {
  const started = onLinux ? startedOnLinux(pid) : startedElsewhere(pid);
  return started === undefined ? undefined : { pid, started };
}

export function isAlive(remembered: ProcessIdentity | undefined): boolean {
  return remembered !== undefined && identify(remembered.pid)?.started === remembered.started;
}

function startedOnLinux(pid: number): string | undefined {
  const stat = readOrNothing(`/proc/${pid}/stat`);
  // The command's name, in brackets, may itself hold spaces and brackets: count from the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, ticksAfterBoot] = [fields[0], fields[19]];
  if (!ticksAfterBoot || state === 'Z' || state === 'X') return undefined;
  return `${readOrNothing('/proc/sys/kernel/random/boot_id').trim()}/${ticksAfterBoot}`;
}

function startedElsewhere(pid: number): string | undefined {
  const [, state, started] = /^(\S+)\s+(.+)$/.exec(ps(pid, 'stat=,lstart=')) ?? [];
  return state?.startsWith('Z') ? undefined : started;
}

/** Whether this process is the main process of a PostgreSQL server on this data directory. */
export function isPostmasterOf(pid: number, dataDir: string): boolean {
  if (onLinux) {
    const words = readOrNothing(`/proc/${pid}/cmdline`).split('\0');
    const isPostgres = basename(words[0] ?? '') === 'postgres';
    return isPostgres && words[words.indexOf('-D') + 1] === dataDir;
  }
  const line = ps(pid, 'command=');
  // The supervising shell carries the server's command line in its own.
  return !line.startsWith('/bin/sh ') && line.includes(`postgres -D ${dataDir} `);
}

/** Whether any process, such as a server process that outlived its postmaster, works in the folder. */
export function anyoneWorksIn(folder: string): boolean {
  // Without /proc there is no cheap proof that nobody does: PostgreSQL's own checks decide then.
  if (!onLinux) return true;
  return readdirSync('/proc').some((entry) => {
    try {
      return /^\d+$/.test(entry) && readlinkSync(join('/proc', entry, 'cwd')) === folder;
    } catch {
      return false;
    }
  });
}

function ps(pid: number, columns: string): string {
  const { stdout } = spawnSync('ps', ['-ww', '-o', columns, '-p', String(pid)], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
  });
  return (stdout ?? '').trim();
}

function readOrNothing(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
