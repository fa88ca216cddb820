// What a failed attempt leaves behind in words. Handlers may throw anything: thrown.ts reads it under guard, and nothing
// here throws. The text is bounded in UTF-8 bytes, and what Postgres cannot store becomes U+FFFD: writing down a failure
// must never fail.

import { isPairAt, utf8Length } from '../options/text.js';
import { readThrown, type Thrown } from './thrown.js';

export const MAX_BYTES = 8192;
const MAX_NAME_BYTES = 200;
const MAX_CAUSES = 5;
const SUMMARY_CHARS = 300;

export interface Failure {
  message: string;
  stack: string | null;
  name: string;
  code: string | null;
}

/** `instanceof` that a thrown Proxy cannot make throw. */
export function isA<Kind>(
  error: unknown,
  kind: abstract new (...args: never[]) => Kind,
): error is Kind {
  try {
    return error instanceof kind;
  } catch {
    return false;
  }
}

/** The parts of a thrown value, each bounded: for logs and events. */
export function describeError(error: unknown, limits: { maxBytes?: number } = {}): Failure {
  const maxBytes = limits.maxBytes ?? MAX_BYTES;
  const { name, message, stack, code } = readThrown(error);
  return {
    name: storable(name, Math.min(maxBytes, MAX_NAME_BYTES)),
    message: storable(message, maxBytes),
    stack: stack === null ? null : storable(stack, maxBytes),
    code: code === null ? null : storable(code, Math.min(maxBytes, MAX_NAME_BYTES)),
  };
}

/** The first line of an error, cut if it is long. */
export function summaryOf(text: string): string {
  const line = text.split('\n', 1)[0] as string;
  if (line.length <= SUMMARY_CHARS) return line;
  // Half of a character is no text for the database.
  return `${line.slice(0, SUMMARY_CHARS - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;
}

interface Report {
  readonly lines: string[];
  /** Characters still worth adding; what is beyond would be cut anyway. */
  room: number;
  readonly maxBytes: number;
  readonly seen: unknown[];
}

/** The text for last_error: name, message and frames of the error, of its causes and its members. */
export function errorText(error: unknown, maxBytes: number = MAX_BYTES): string {
  const report: Report = { lines: [], room: maxBytes, maxBytes, seen: [] };
  describeInto(report, error, '', 0);
  return storable(report.lines.join('\n'), maxBytes);
}

function describeInto(report: Report, error: unknown, label: string, depth: number): void {
  if (report.room <= 0) return;
  if (report.seen.includes(error) && typeof error === 'object') {
    add(report, `${label}(an error already shown above)`);
    return;
  }
  report.seen.push(error);
  const parts = readThrown(error);
  // A long message must not crowd out the frames, nor the frames of one error its cause.
  const message = storable(parts.message, report.maxBytes / 2);
  add(report, `${label}${storable(parts.name, MAX_NAME_BYTES)}${message && ': '}${message}`);
  const frames = framesOf(parts);
  if (frames !== '') add(report, storable(frames, report.maxBytes / 4));
  if (depth === MAX_CAUSES) {
    const more = parts.members.length > 0 || parts.cause !== undefined;
    if (more) add(report, '(more causes not shown)');
    return;
  }
  for (const [i, member] of parts.members.entries()) {
    describeInto(report, member, `Error ${i + 1} of ${parts.memberCount}: `, depth + 1);
  }
  if (parts.cause !== undefined) describeInto(report, parts.cause, 'Caused by: ', depth + 1);
}

function add(report: Report, text: string): void {
  report.lines.push(text);
  report.room -= text.length;
}

/** The lines of the stack below the header, which repeats the name and the message. */
export function framesOf({ message, stack }: Pick<Thrown, 'message' | 'stack'>): string {
  if (stack === null) return '';
  // The message may be huge or hold lines that look like frames, so it is skipped by its length. The name before it is
  // short, and may be an older one: libraries rename errors.
  const start = message.slice(0, 100);
  const at = stack.slice(0, MAX_NAME_BYTES + start.length).indexOf(start);
  const rest = at < 0 ? stack : stack.slice(at + message.length);
  const frame = rest.slice(0, MAX_BYTES).search(/^ +at /m);
  return frame < 0 ? '' : rest.slice(frame);
}

// With the u flag, \p{Cs} matches only surrogates that are not part of a pair.
const UNSTORABLE = /[\0\p{Cs}]/gu;

/** The text as Postgres can hold it, in at most maxBytes of UTF-8, marked if it had to be cut. */
export function storable(text: string, maxBytes: number): string {
  const max = Math.max(0, Math.floor(maxBytes) || 0);
  // A unit is at least one byte: what lies beyond is dropped before anything has to read it.
  const clean = text.slice(0, max + 1).replace(UNSTORABLE, '\uFFFD');
  if (text.length <= max && utf8Length(clean) <= max) return clean;
  const mark = `… [cut, ${Buffer.byteLength(text)} bytes]`;
  const room = max - utf8Length(mark);
  return room < 0 ? cut(clean, max) : cut(clean, room) + mark;
}

function cut(text: string, maxBytes: number): string {
  let bytes = 0;
  let i = 0;
  while (i < text.length) {
    const unit = text.charCodeAt(i);
    const pair = isPairAt(text, i, unit);
    bytes += pair ? 4 : unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
    if (bytes > maxBytes) break;
    i += pair ? 2 : 1;
  }
  return text.slice(0, i);
}
