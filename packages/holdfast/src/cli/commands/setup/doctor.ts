/**
 * `holdfast doctor`: looks for everything that is known to go wrong, and says for each what it found, why it
 * matters and the fix. Exit code 3 if there is a problem. It changes nothing: what it tries, it rolls back.
 */
import { diagnose as diagnoseDatabase } from '../../../api/doctor/doctor.js';
import { type Finding, LIMITS, type Limits } from '../../../inspect/doctor/doctor.js';
import { type Call, EXIT } from '../../command.js';
import { UsageError } from '../../failures.js';
import { pasteable } from '../../print/paste.js';
import { plain } from '../../print/table.js';
import type { Session } from '../../session.js';
import { judgeEmbedded } from './doctor-embedded.js';

export async function run({ args, session, out }: Call): Promise<number> {
  if (args.length > 0)
    throw new UsageError(`doctor takes no argument, but "${args[0]}" was given.`);
  const findings = (await diagnose(session)).map((finding) => ({
    ...finding,
    fix: finding.fix && pasteable(finding.fix, session.schema),
  }));
  const problems = findings.filter(({ level }) => level === 'problem').length;
  for (const finding of findings) {
    if (out.json) await out.value(finding);
    else await print(out, finding);
  }
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
