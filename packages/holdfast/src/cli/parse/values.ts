/** Values of options and arguments, checked before anything is asked, so that a slip is a usage error. */
import { isId } from '../../job/id.js';
import type { Priority } from '../../job/job.js';
import { durationMs } from '../../job/options/duration.js';
import type { DueOptions } from '../../job/options/enqueue-options.js';
import { defined } from '../../job/options/known-options.js';
import { nearest } from '../../job/options/nearest.js';
import type { ReadPolicyOptions, TurnOptions } from '../../job/turns.js';
import type { Given } from '../command.js';
import { UsageError } from '../failures.js';

export function countOption(given: Given, name: string, fallback: number): number {
  const text = given.text(name);
  if (text === undefined) return fallback;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new UsageError(`--${name} must be a whole number of at least 1, not "${text}".`);
}

/** Undefined where it is not given: then the default is that of what it is passed to. */
export const countIfGiven = (given: Given, name: string) =>
  given.text(name) === undefined ? undefined : countOption(given, name, 1);

/** A number that is no priority is refused by what it is passed to. */
export const priorityOption = (given: Given) =>
  countIfGiven(given, 'priority') as Priority | undefined;

export function durationOption(given: Given, name: string): number | undefined {
  const text = given.text(name);
  return text === undefined ? undefined : durationMs(text, `--${name}`);
}

/** `on` or `off`. */
export function switchOption(given: Given, name: string): boolean | undefined {
  const text = given.text(name);
  if (text === undefined || text === 'on' || text === 'off') return text && text === 'on';
  throw new UsageError(`--${name} must be on or off, not "${text}".`);
}

/** Words of a list, each given by itself or several with commas between them. */
export function wordsOption(given: Given, name: string, known: readonly string[]) {
  const asked = given.texts(name)?.flatMap((word) => word.split(','));
  const wrong = asked?.find((word) => !known.includes(word));
  if (wrong === undefined) return asked;
  throw new UsageError(
    `There is no ${name} "${wrong}".${nearest(wrong, known)} Known: ${known.join(', ')}.`,
  );
}

/** `--run-at` or `--delay`. Both together are rejected where they are used. */
export const dueOptions = (given: Given) =>
  defined({
    ...{ delay: durationOption(given, 'delay'), runAt: timeOf(given.text('run-at')) },
  }) as object as DueOptions;

function timeOf(text: string | undefined): Date | undefined {
  if (text === undefined) return undefined;
  const at = new Date(text);
  if (/^\d{4}-\d\d-\d\d/.test(text) && !Number.isNaN(at.getTime())) return at;
  throw new UsageError(`--run-at takes a time such as 2026-01-31T09:00:00Z, not "${text}".`);
}

function numberOrNone(given: Given, name: string): number | null | undefined {
  const text = given.text(name);
  if (text === undefined || text === 'none') return text && null;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new UsageError(`--${name} must be a whole number or none, not "${text}".`);
}

function weightsOf(text: string | undefined): TurnOptions['weights'] {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError(`--weights must be JSON such as '{"tenant:7": 3}'. Nothing was set.`);
  }
}

/** What was given of how a queue is read; the rest is checked where it is used, with a message that names what is allowed. */
export const readOptions = (given: Given) =>
  defined({
    ordering: given.text('ordering') as 'key' | undefined,
    deadLetters: given.text('dead-letters') as 'hold' | undefined,
    perKey: numberOrNone(given, 'per-key'),
    perGroup: numberOrNone(given, 'per-group'),
    fair: switchOption(given, 'fair'),
    weights: weightsOf(given.text('weights')),
  }) as object as ReadPolicyOptions;

export function checkIds(words: readonly string[]): string[] {
  const wrong = words.find((word) => !isId(word));
  if (wrong === undefined) return [...new Set(words.map((word) => word.toLowerCase()))];
  throw new UsageError(
    `"${wrong}" is not the id of a job. An id looks like 0199a1c2-7d3e-7000-8000-000000009182.`,
  );
}

export const oneId = (words: readonly string[]) => checkIds(words)[0] as string;

export async function readStdin(): Promise<string> {
  let text = '';
  for await (const chunk of process.stdin.setEncoding('utf8')) text += chunk;
  return text;
}

/** The message of JSON.parse quotes the text, which may be a secret. */
export function parsePayload(text: string, undone: string, where = 'The payload'): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError(
      `${where} is not JSON; ${undone}. Quote it for the shell: '{"orderId": 9182}'.`,
    );
  }
}
