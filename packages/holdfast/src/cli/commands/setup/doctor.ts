/**
 * `holdfast doctor`: looks for everything that is known to go wrong, and says for each what it found, why it matters and
 * the fix. It changes nothing: what it tries, it rolls back.
 */
import { setTimeout } from 'node:timers/promises';
import { diagnose as diagnoseDatabase } from '../../../api/doctor/doctor.js';
import {
  type Finding,
  LIMITS,
  type Limits,
  note,
  ok,
  problem,
} from '../../../inspect/doctor/doctor.js';
import { durationMs } from '../../../job/options/duration.js';
import { isTransient } from '../../../postgres/connect/transient.js';
import { type Call, EXIT } from '../../command.js';
import { UsageError } from '../../failures.js';
import { pasteable, plain } from '../../print/table.js';
import type { Session } from '../../session.js';
import { loadPackage } from './load-package.js';

export async function run(call: Call): Promise<number> {
  const { given, out, signal } = call;
  if (!given.flag('watch')) {
    if (given.text('every') !== undefined) throw new UsageError('--every goes with --watch.');
    return show(call, await look(call));
  }
  const every = given.text('every');
  const everyMs = every === undefined ? 10_000 : durationMs(every, '--every', { min: 1_000 });
  const { stdout } = out.streams;
  let exit: number = EXIT.ok;
  while (!signal.aborted) {
    try {
      const findings = await look(call);
      // What is well would hide the rest.
      const shown = out.json ? findings : findings.filter(({ level }) => level !== 'ok');
      if (stdout.isTTY && !out.json) stdout.write(CLEAR);
      if (!out.json) await out.line(new Date().toISOString().replace(/\.\d+Z$/, 'Z'));
      exit = await show(call, shown, findings);
    } catch (error) {
      if (!isTransient(error)) throw error;
      exit = EXIT.unhealthy;
      out.note(`${plain((error as Error).message)} Trying again.`);
    }
    await setTimeout(everyMs, undefined, { signal }).catch(() => undefined);
  }
  return exit;
}

/** The screen, from its first line. */
const CLEAR = '\u001b[H\u001b[2J';

async function look({ session }: Call): Promise<Finding[]> {
  return (await diagnose(session)).map((finding) => ({
    ...finding,
    fix: finding.fix && pasteable(finding.fix, session.schema),
  }));
}

async function show(
  { out }: Call,
  shown: readonly Finding[],
  findings: readonly Finding[] = shown,
): Promise<number> {
  const problems = findings.filter(({ level }) => level === 'problem').length;
  for (const finding of shown) await (out.json ? out.value(finding) : print(out, finding));
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
