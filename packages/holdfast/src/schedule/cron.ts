/**
 * Cron lines: five fields, six with seconds, seven with years, L, W, # and nicknames such as `@daily`. Plain ones are
 * read by fields.ts, all others, and all mistakes, by croner. A line says which wall-clock times match; zone.ts makes
 * instants of them. croner is asked in UTC: in a zone it would leave out the hour that a clock repeats in autumn.
 */
import { Cron } from 'croner';
import { HoldfastError } from '../job/errors/errors.js';
import { shown } from '../job/errors/holdfast-error.js';
import { plainLine } from './fields.js';

export interface CronLine {
  /** The first match after a wall-clock time; null: there is none. Times are milliseconds, read as if in UTC. */
  readonly next: (wallMs: number) => number | null;
  /** It names no hours: `*` or a step. Such a line goes on through the hour that a clock repeats. */
  readonly everyHour: boolean;
}

const MAX_LENGTH = 200;
/** A fleet has as many lines as its tenants may write. One of croner's takes 80 kB. */
const MAX_KEPT = 50_000;
const MAX_KEPT_CRONER = 200;
const kept = new Map<string, CronLine>();
const keptCroner = new Map<string, CronLine>();

/** Throws OPTION_INVALID with the reason. `undone` says what was not done, as a sentence. */
export function cronLine(text: unknown, undone = 'Nothing was done.'): CronLine {
  const found = kept.get(text as string) ?? keptCroner.get(text as string);
  if (found) return found;
  const { line, plain } = parse(text, undone);
  const [lines, most] = plain ? [kept, MAX_KEPT] : [keptCroner, MAX_KEPT_CRONER];
  if (lines.size >= most) lines.clear();
  lines.set(text as string, line);
  return line;
}

function parse(text: unknown, undone: string): { line: CronLine; plain: boolean } {
  if (typeof text !== 'string' || text.length > MAX_LENGTH) {
    throw refused(text, `it must be a text of at most ${MAX_LENGTH} characters`, undone);
  }
  const fields = text.trim().split(/\s+/);
  // croner also takes a date, which is no schedule: enqueue with runAt does that.
  if (!text.startsWith('@') && (fields.length < 5 || fields.length > 7)) {
    const problem =
      'it must have five fields, six with seconds before them, or a name such as @daily';
    throw refused(text, problem, undone);
  }
  const hour = fields.length === 1 ? '' : (fields.at(fields.length === 5 ? 1 : 2) as string);
  const everyHour = /^[*?]/.test(hour) || /^@hourly$/i.test(text);
  const plain = plainLine(text);
  if (plain) return { line: { next: plain, everyHour }, plain: true };
  const cron = croner(text, undone);
  return { line: { next: (wallMs) => nextRun(text, cron, wallMs), everyHour }, plain: false };
}

/** croner goes from month to month by calling itself: for some lines that never fire the stack ends first. */
function nextRun(text: string, cron: Cron, wallMs: number): number | null {
  try {
    return cron.nextRun(new Date(wallMs))?.getTime() ?? null;
  } catch (cause) {
    const message = `cron ${shown(text)} never fires, or so rarely that it is not found. Nothing was done. Look at its day and month.`;
    throw new HoldfastError('OPTION_INVALID', message, { cause });
  }
}

function croner(text: string, undone: string): Cron {
  try {
    return new Cron(text, { utcOffset: 0 });
  } catch (error) {
    const reason = (error as Error).message.replace(/^\w+: /, '');
    throw refused(text, reason, undone, error);
  }
}

function refused(text: unknown, reason: string, undone: string, cause?: unknown): HoldfastError {
  const message = `cron ${shown(text)} cannot be read: ${reason.replace(/\.$/, '')}. ${undone}`;
  return new HoldfastError('OPTION_INVALID', message, cause === undefined ? {} : { cause });
}
