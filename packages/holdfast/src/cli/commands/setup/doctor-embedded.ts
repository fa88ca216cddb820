/**
 * An embedded server that outlived the process that started it: its supervisor was killed, and nobody will
 * stop it. Looked for where `startEmbedded` puts it by default, in this folder.
 */
import { join, resolve } from 'node:path';
import { readPostmasterFile } from '@@holdfast/embedded';
import { isAlive, isPostmasterOf } from '@@holdfast/embedded';
import { readState } from '@@holdfast/embedded';
import { type Finding, note, ok, problem } from '../../../inspect/doctor/doctor.js';

const CHECK = 'embedded server';

export function judgeEmbedded(folder = process.cwd()): Finding[] {
  const wanted = resolve(folder, '.holdfast', 'postgres');
  try {
    const state = readState(`${wanted}.state.json`);
    if (!state) return [];
    const dataDir = state.relocatedTo ? join(state.relocatedTo, 'data') : wanted;
    const file = readPostmasterFile(dataDir);
    if (!file || !isPostmasterOf(file.pid, dataDir)) return [ok(CHECK, 'none is running here')];
    if (isAlive(state.supervisor)) return [ok(CHECK, `running, supervised (pid ${file.pid})`)];
    return [
      problem(
        CHECK,
        `The embedded PostgreSQL of ${dataDir} (pid ${file.pid}) runs without a supervisor.`,
        'The process that started it was killed; nobody will stop it, and it keeps its memory and its port.',
        `kill -INT ${file.pid}; or start it again (holdfast demo), which stops it first.`,
      ),
    ];
  } catch (error) {
    return [
      note(
        CHECK,
        `The state of the embedded server in ${wanted} could not be read: ${(error as Error).message}`,
        'Whether one was left running is not known.',
        'Run the doctor as the user who started it.',
      ),
    ];
  }
}
