/** Due work that does not start: what stands, since when, why, and what to type. */
import type { Stopped } from '../explain/stopped.js';
import { firstFew, many, span } from '../reading/words.js';
import { type Finding, type Limits, lines, ok, problem } from './doctor.js';

const CHECK = 'stopped';
const NAMED = 5;

export function judgeStopped(queue: string, found: readonly Stopped[], limits: Limits): Finding[] {
  if (found.length === 0)
    return [
      ok(CHECK, `${queue}: no due work has stood still for more than ${span(limits.stoppedMs)}`),
    ];
  return found.map((one) => {
    const finding = problem(
      CHECK,
      `${describeStopped(one)}. ${one.reason.text}`,
      'Work that is due stands still, and this is what its users wait for.',
      lines(...steps(one)),
    );
    const { quotes } = one.reason;
    const without = `${describeStopped(one)} (${one.reason.code}).`;
    return quotes ? { ...finding, quotes: { queue, type: quotes, without } } : finding;
  });
}

/** `12 due jobs of "inbox" (send_mail) do not start: the oldest has been due for 3 min, nothing of the kind has started for 4 min`. */
export function describeStopped({ queue, types, jobs, more, dueMs, idleMs }: Stopped): string {
  const began =
    idleMs === null
      ? 'none of the kind is known to have started'
      : `none of the kind has started for ${span(idleMs)}`;
  return (
    `${more ? 'At least ' : ''}${many(jobs, 'due job')} of "${queue}" (${firstFew(types, NAMED, 'type')}) ` +
    `${jobs === 1 ? 'does' : 'do'} not start: the oldest has been due for ${span(dueMs)}, and ${began}`
  );
}

/** What to do, with what is pasted on lines of its own. */
function steps({ oldest, jobs, reason }: Stopped): string[] {
  if (reason.refused)
    return [
      'A right is missing: "rights" says which, for whom, and prints the statement that grants it.',
    ];
  if (reason.untaken)
    return [
      `Read the log of ${firstFew(reason.untaken, NAMED, 'worker')}: it says why its claims fail, or find nothing. If it says nothing, end the worker and let its supervisor start another:`,
      ...reason.untaken.slice(0, NAMED).map((id) => `holdfast workers drain ${id}`),
    ];
  const { longest } = reason;
  if (reason.code === 'handlers_busy' && longest && !reason.fix?.startsWith('Restart'))
    return [
      `${reason.fix}. If the handlers hang, take the job away that has run longest; its handler has its place for the grace at most:`,
      `holdfast jobs cancel ${longest.job}`,
      'or end the worker with all that it runs, and let its supervisor start another:',
      `holdfast workers drain ${longest.worker}`,
    ];
  if (reason.soon)
    return [
      'Somebody wanted this rate. To let all that waits start within a minute:',
      `${reason.soon.command} --rate ${reason.soon.atLeast + jobs}/1m`,
    ];
  const first = reason.fix === null ? [] : pasteLines(reason.fix);
  const more = [`All that holds the oldest one:`, `holdfast explain ${oldest}`];
  return reason.fix?.includes('holdfast explain ') ? first : [...first, ...more];
}

const PASTED = "(?:holdfast (?!doctor)|SELECT |ROLLBACK PREPARED ')";
const OR = new RegExp(`[,;]? or:? (?=${PASTED})`, 'g');
const COLON = new RegExp(`: (?=${PASTED})`, 'g');

/** A fix of explain in lines: words end with a colon or a full stop, and what is pasted has a line of its own. */
export function pasteLines(fix: string): string[] {
  const parts = fix.replace(OR, ', or:\n').replace(COLON, ':\n').split('\n');
  return parts.flatMap((part) => {
    const [, command] = new RegExp(`^(${PASTED}.*), or:$`).exec(part) ?? [];
    if (command !== undefined) return [command, 'or:'];
    return [/[.:;]$/.test(part) || new RegExp(`^${PASTED}`).test(part) ? part : `${part}.`];
  });
}
