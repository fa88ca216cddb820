/**
 * `holdfast doctor`: looks for everything that is known to go wrong, and says for each what it found, why it matters and
 * the fix. It changes nothing: what it tries, it rolls back.
 */
import { diagnose as diagnoseDatabase } from '../../../api/doctor/doctor.js';
import {
  type Finding,
  LIMITS,
  type Limits,
  note,
  ok,
  problem,
} from '../../../inspect/doctor/doctor.js';
import { type Call, EXIT } from '../../command.js';
import { pasteable, plain } from '../../print/table.js';
import type { Session } from '../../session.js';
import { loadPackage } from './load-package.js';

export async function run({ session, out }: Call): Promise<number> {
  const findings = (await diagnose(session)).map((finding) => ({
    ...finding,
    fix: finding.fix && pasteable(finding.fix, session.schema),
  }));
  const problems = findings.filter(({ level }) => level === 'problem').length;
  for (const finding of findings) await (out.json ? out.value(finding) : print(out, finding));
  const notes = findings.filter(({ level }) => level === 'note').length;
  out.note(
    problems + notes === 0
      ? `All ${findings.length} checks are well.`
      : `${problems} problem(s), ${notes} note(s), ${findings.length - problems - notes} well.`,
  );
  return problems > 0 ? EXIT.unhealthy : EXIT.ok;
}

const MARKS = { ok: ['ok', 'good'], note: ['note', 'worry'], problem: ['PROBLEM', 'bad'] } as const;

async function print(out: Call['out'], { check, level, text, why, fix }: Finding): Promise<void> {
  const [mark, style] = MARKS[level];
  await out.line(`${out.paint(mark.padEnd(7), style)}  ${check}: ${plain(text)}`);
  if (why) await out.line(`         why: ${plain(why)}`);
  // Each line can be pasted as it stands: a line of words ends with a colon or a full stop, a statement with a semicolon.
  for (const [n, line] of (fix ?? '').split('\n').filter(Boolean).entries()) {
    await out.line(`         ${n === 0 ? 'fix: ' : '     '}${line.replace(CONTROL, '·')}`);
  }
}

const CONTROL = /[\p{Cc}\p{Cf}\p{Cs}]/gu;

/** The database, and an embedded server in this folder. */
export async function diagnose(
  session: Session,
  limits: Limits = LIMITS,
  folder = process.cwd(),
): Promise<Finding[]> {
  return [...(await diagnoseDatabase(session, limits)), ...(await judgeEmbedded(folder))];
}

const CHECK = 'embedded server';

interface Embedded {
  findEmbedded(folder: string): { dataDir: string; pid: number | null; supervised: boolean } | null;
}

/** A server whose supervisor was killed: nobody will stop it. Looked for where `startEmbedded` puts it by default. */
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
