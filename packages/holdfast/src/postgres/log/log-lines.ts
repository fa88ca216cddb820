/**
 * The default logger: lines on stderr. A terminal gets one readable line an event, anything else one JSON object a line.
 * It cannot end the process: when nobody reads the other end any more, lines are dropped. Control characters in facts
 * are escaped, so none can act on a terminal or begin a line of its own.
 */
import { describeError } from '../../job/errors/failure.js';
import { type Level, type Logger, leveled } from './log.js';

/** The part of `process.stderr` that is used. */
export interface LineStream {
  readonly isTTY?: boolean;
  write(text: string, written: (error?: Error | null) => void): unknown;
  listeners(event: 'error'): unknown[];
  once(event: 'error', listener: () => void): unknown;
}

export function lineLogger(stream: () => LineStream = () => process.stderr, base = {}): Logger {
  const line = (level: Level) => (facts: object, message?: string) => {
    const target = stream();
    const text = target.isTTY ? readable : json;
    write(target, `${text(level, { ...base, ...facts }, message)}\n`);
  };
  return leveled(line, (facts) => lineLogger(stream, { ...base, ...facts }));
}

function json(level: Level, facts: object, msg: string | undefined): string {
  const pairs = Object.entries({ level, time: new Date().toISOString(), ...facts, msg });
  // One by one: a fact with a cycle in it must not cost the others.
  const known = pairs.filter(([, value]) => value !== undefined);
  return `{${known.map(([name, value]) => `${JSON.stringify(name)}:${text(value)}`).join(',')}}`;
}

/** `07:47:15 warn  an attempt failed  type=hello attempt=1 err="Error: nobody is there"` */
function readable(level: Level, facts: object, message = ''): string {
  const time = new Date().toTimeString().slice(0, 8);
  const pairs = Object.entries(facts)
    .filter(([name, value]) => name !== 'component' && value !== undefined && value !== null)
    .map(([name, value]) => `${name}=${valueText(value)}`);
  return [`${time} ${level.padEnd(5)} ${plain(message)}`, ...pairs].join('  ');
}

const BARE = /^[^\s"=\p{Cc}]+$/u;

function valueText(value: unknown): string {
  if (typeof value === 'string') return BARE.test(value) ? value : plain(JSON.stringify(value));
  if (Array.isArray(value)) return value.map(valueText).join(',');
  if (value instanceof Error) return valueText(worded(value));
  return plain(text(value));
}

/** JSON.stringify drops everything in an error, and throws on a BigInt. */
function text(value: unknown): string {
  try {
    return JSON.stringify(value, (_, part) => worded(part)) ?? String(value);
  } catch {
    return '"(no JSON)"';
  }
}

function worded(part: unknown): unknown {
  if (typeof part === 'bigint') return String(part);
  if (!(part instanceof Error)) return part;
  const { name, message, code } = describeError(part);
  return `${name}: ${message}${code === null ? '' : ` (${code})`}`;
}

const plain = (text: string) =>
  text.replace(/\p{Cc}/gu, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`);

const dropped = () => {};

/** An error of the stream is nobody's, and without a listener it would end the process. */
export function write(stream: LineStream, text: string): void {
  try {
    // It is called before the stream emits its error. Others that listen are not enough: the pipe of a
    // thread's stderr listens, and throws what nobody else listens to.
    stream.write(text, (error) => {
      if (error && !stream.listeners('error').includes(dropped)) stream.once('error', dropped);
    });
  } catch {
    // There is nowhere to say it.
  }
}
