/**
 * Refuses options that do not exist: a mistyped name would be ignored in silence, and its default used. The compiler keeps
 * the lists of names complete. Values are checked where they are used; the checks that many share are here.
 */
import { invalid, shown } from '../errors/holdfast-error.js';
import { nearest } from './nearest.js';

/** All names of an interface of options: `{ concurrency: true, … } satisfies Known<WorkerOptions>`. */
export type Known<Options> = Readonly<Record<keyof Options, true>>;

/** `where` has these options, such as `worker()`; `undone` says what was not done, as a sentence. */
export function checkKnown(
  options: unknown,
  known: Readonly<Record<string, true>>,
  where: string,
  undone: string,
): void {
  const problem = unknownOption(options, known, where);
  if (problem !== null) throw invalid(`${problem} ${undone}`);
}

/** What is wrong and what may have been meant, or null. */
export function unknownOption(
  options: unknown,
  known: Readonly<Record<string, true>>,
  where: string,
): string | null {
  if (options === undefined) return null;
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    const given = Array.isArray(options) ? 'an array' : shown(options);
    return `The options of ${where} must be an object, not ${given}.`;
  }
  const wrong = Object.keys(options).find((name) => !Object.hasOwn(known, name));
  if (wrong === undefined) return null;
  const names = Object.keys(known);
  const meant = nearest(wrong, names) || ` It has ${names.join(', ')}.`;
  return `${where} has no option ${shown(wrong)}.${meant}`;
}

/** An object as `{}` makes it. A list, a Map or a promise would be read as if it were empty. */
export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** The same without what is undefined. */
export function defined<Values extends object>(values: Values) {
  const known = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(known) as { [Name in keyof Values]?: Exclude<Values[Name], undefined> };
}

/** A name that was lost on its way would make an act one on `all`. */
export function checkNamed<Options extends object>(
  options: Options,
  names: readonly (keyof Options & string)[],
  all: string,
): void {
  const lost = names.find((name) => Object.hasOwn(options, name) && options[name] === undefined);
  if (lost === undefined) return;
  throw invalid(
    `${lost} was given and is undefined, so this would be about ${all}; nothing was done. Leave it out if that is meant.`,
  );
}

/** An option that is true or false; undefined is as good as left out. */
export function checkFlag(value: unknown, what: string, undone: string): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value;
  throw invalid(`${what} must be true or false, not ${shown(value)}. ${undone}`);
}

/** An option that is one of a few words; undefined is as good as left out. */
export function checkChoice<Choice extends string>(
  value: unknown,
  choices: readonly Choice[],
  what: string,
  undone: string,
): Choice | undefined {
  if (value === undefined || choices.includes(value as Choice)) return value as Choice | undefined;
  const list = choices.map((one) => `'${one}'`).join(' or ');
  throw invalid(`${what} must be ${list}, not ${shown(value)}. ${undone}`);
}
