/**
 * Runs a program so that it cannot outlive this process. Between the two stands a small shell in a session of its own,
 * which no Ctrl-C reaches. It holds the reading end of a pipe from here: when this process ends, even by SIGKILL, the
 * pipe closes and the shell shuts the program down. The shell is the program's parent, so the id it signals cannot have
 * been given to another process meanwhile.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Account } from './account.js';
import { identify, type ProcessIdentity } from './processes.js';

/**
 * A line on the pipe asks for a shutdown, `immediate` or else fast; the end of the pipe does too, and then a throwaway
 * folder goes as well. The watching half marks that with a file in the folder: it and the waiting half share no
 * variables. It acts only while the waiting half lives: if that one was killed, the program's id may by now be anyone's.
 * Background jobs of a shell read from /dev/null, hence the copy of the pipe as descriptor 3.
 */
const script = `
trap '' HUP INT TERM
exec 3<&0 0</dev/null
folder=$1
shift
"$@" 3<&- &
program=$!
(
  word=
  read -r word <&3 || [ -z "$folder" ] || : >"$folder/abandoned"
  kill -0 $$ || exit
  case $word in
    immediate) kill -s QUIT "$program" ;;
    *) kill -s INT "$program" ;;
  esac
  for second in 1 2 3 4 5 6 7 8 9 10; do sleep 1 3<&-; done
  kill -0 $$ && kill -s QUIT "$program"
) 2>/dev/null &
watcher=$!
wait "$program"
status=$?
kill -s KILL "$watcher"
if [ -n "$folder" ] && [ -e "$folder/abandoned" ]; then rm -rf -- "$folder"; fi
exit "$status"
`;

export interface Supervised {
  identity: ProcessIdentity | undefined;
  /** Settles, always well, when the program has ended and its supervisor with it. */
  ended: Promise<{ status: number | null }>;
  hasEnded(): boolean;
  /** Asks the program to shut down and waits for it. Without a mode, a throwaway folder goes too. */
  end(mode?: 'fast' | 'immediate'): Promise<void>;
}

export interface SupervisedProgram {
  command: readonly string[];
  account: Account;
  /** An open file for the output. It is closed here once the program has its own copy. */
  log: number;
  /** Deleted when this process is gone. */
  throwawayFolder?: string | undefined;
}

export async function supervise(program: SupervisedProgram): Promise<Supervised> {
  const { account, command, log, throwawayFolder = '' } = program;
  const child = spawn(
    '/bin/sh',
    ['-c', script, 'holdfast-supervisor', throwawayFolder, ...command],
    {
      cwd: '/',
      detached: true,
      // Nothing of the caller's environment may steer the server: PGPORT, PGDATA, PGOPTIONS, LC_*.
      env: { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' },
      stdio: ['pipe', log, log],
      // spawn takes the unsigned ids of macOS' nobody in their signed form only.
      ...(account.steppedDown ? { uid: account.uid | 0, gid: account.gid | 0 } : {}),
    },
  );
  closeSync(log);
  const pipe = child.stdin as Socket;
  let hasEnded = false;
  const ended = new Promise<{ status: number | null }>((resolve) => {
    child.once('exit', (status) => {
      hasEnded = true;
      pipe.destroy();
      resolve({ status });
    });
  });
  // A program that ended by itself leaves a broken pipe behind: its end is reported elsewhere.
  pipe.on('error', () => {});
  child.on('error', () => {});
  await once(child, 'spawn');
  child.unref();
  pipe.unref();
  return {
    identity: child.pid === undefined ? undefined : identify(child.pid),
    ended,
    hasEnded: () => hasEnded,
    async end(mode) {
      if (hasEnded) return;
      // Whoever waits for the end must not have its process exit under it.
      child.ref();
      if (mode) pipe.write(`${mode}\n`);
      else pipe.end();
      await ended;
    },
  };
}
