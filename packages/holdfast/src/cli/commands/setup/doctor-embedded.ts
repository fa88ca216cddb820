/**
 * An embedded server that outlived the process that started it: its supervisor was killed, and nobody will
 * stop it. Looked for where `startEmbedded` puts it by default, in this folder, if `@holdfast/embedded` is installed.
 */
import { type Finding, note, ok, problem } from '../../../inspect/doctor/doctor.js';
import { loadPackage } from './load-package.js';

const CHECK = 'embedded server';

interface Embedded {
  findEmbedded(folder: string): { dataDir: string; pid: number | null; supervised: boolean } | null;
}

export async function judgeEmbedded(folder = process.cwd()): Promise<Finding[]> {
  try {
    const embedded = await loadPackage<Embedded>('@holdfast/embedded');
    if (!embedded) return [];
    const found = embedded.findEmbedded(folder);
    if (!found) return [];
    const { dataDir, pid, supervised } = found;
    if (pid === null) return [ok(CHECK, 'none is running here')];
    if (supervised) return [ok(CHECK, `running, supervised (pid ${pid})`)];
    return [
      problem(
        CHECK,
        `The embedded PostgreSQL of ${dataDir} (pid ${pid}) runs without a supervisor.`,
        'The process that started it was killed; nobody will stop it, and it keeps its memory and its port.',
        `kill -INT ${pid}; or start it again, which stops it first.`,
      ),
    ];
  } catch (error) {
    return [
      note(
        CHECK,
        `The state of the embedded server in ${folder} could not be read: ${(error as Error).message}`,
        'Whether one was left running is not known.',
        'Run the doctor as the user who started it.',
      ),
    ];
  }
}
