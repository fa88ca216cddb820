/**
 * Unique keys: when a new job counts as one that exists, and what happens then. A job has its key to itself within its
 * queue and type until `while` ends it. The options are checked here; the statement finds the job that has the key.
 */
import { invalid, shown } from './errors/holdfast-error.js';
import { checkKey } from './key.js';
import { type Duration, durationMs, MAX_DELAY_MS } from './options/duration.js';
import { checkKnown, type Known } from './options/known-options.js';

const WHILES = ['pending', 'running', 'kept'] as const;
const CONFLICTS = ['ignore', 'replace', 'later'] as const;

/** The terms of a unique key. */
interface Terms<While, Conflict, Window> {
  /**
   * How long a job keeps its key. `pending` (default): until it is claimed for the first time. `running`: until it
   * has ended. `kept`: until it has ended and `window` is over.
   */
  readonly while?: While;
  /**
   * What a second enqueue does while a job has the key. `ignore` (default): nothing. `replace`: one that was never claimed gets the
   * new payload, priority and time; if it runs already, a new job waits behind it. `later`: a new job unless one waits.
   * With `kept` only `ignore`: a job that has ended cannot be replaced.
   */
  readonly onConflict?: Conflict;
  /** With `while: 'kept'`: how long, counted from the enqueue. Default: the queue's `idempotencyRetention`. */
  readonly window?: Window;
}

type Conflict = (typeof CONFLICTS)[number];

/** How long a unique key holds, and what a second enqueue does. */
export type UniqueTerms =
  | Terms<'kept', 'ignore', Duration>
  | Terms<'pending' | 'running', Conflict, undefined>
  /** The definition may say for how long. */
  | Terms<undefined, Conflict, Duration>;

/**
 * One job per key.
 * @example await hf.enqueue(sendReceipt, { orderId: 9182 }, { unique: { key: 'receipt:9182' } });
 */
export type UniqueOptions = UniqueTerms & {
  /** Enqueues with the same key share one job. */
  readonly key: string;
};

/** The default of a definition. */
export type UniqueBy<Input> = UniqueTerms & {
  /** The key of a payload. */
  readonly by: (payload: Input) => string;
};

/** Checked, with its defaults. */
export interface Unique {
  readonly key: string;
  readonly while: (typeof WHILES)[number];
  readonly onConflict: (typeof CONFLICTS)[number];
  /** Null: the retention of the queue. */
  readonly windowMs: number | null;
}

const TERMS = { while: true, onConflict: true, window: true } as const satisfies Known<UniqueTerms>;
const NOTHING = 'Nothing was enqueued.';

const refused = (problem: string, undone = NOTHING, cause?: unknown) =>
  invalid(`${problem} ${undone}`, { cause });

function oneOf<Value extends string>(
  value: unknown,
  all: readonly Value[],
  what: string,
  undone: string,
): Value {
  if (value === undefined) return all[0] as Value;
  if (all.includes(value as Value)) return value as Value;
  throw refused(`${what} must be one of ${all.join(', ')}, not ${shown(value)}.`, undone);
}

function termsOf(terms: UniqueTerms, undone: string): Omit<Unique, 'key'> {
  const scope = oneOf(terms.while, WHILES, 'unique.while', undone);
  const onConflict = oneOf(terms.onConflict, CONFLICTS, 'unique.onConflict', undone);
  if (scope === 'kept' && onConflict !== 'ignore') {
    throw refused(
      `unique.while "kept" goes with onConflict "ignore" only, not "${onConflict}": what has ended cannot be replaced.`,
      undone,
    );
  }
  if (terms.window === undefined) return { while: scope, onConflict, windowMs: null };
  if (scope !== 'kept') throw refused('unique.window goes with while "kept" only.', undone);
  try {
    const windowMs = durationMs(terms.window, 'unique.window', { min: 1, max: MAX_DELAY_MS });
    return { while: scope, onConflict, windowMs };
  } catch (error) {
    throw refused(`${(error as Error).message}.`, undone, error);
  }
}

/** Throws unless it can be the default of the definition of this type. */
export function checkUniqueBy(type: string, given: unknown): void {
  const undone = 'No definition was made.';
  checkKnown(given, { ...TERMS, by: true }, `unique of job("${type}")`, undone);
  const { by, ...terms } = given as UniqueBy<unknown>;
  if (typeof by !== 'function') {
    throw refused(
      `unique.by of job("${type}") must be a function of the payload, not ${shown(by)}.`,
      undone,
    );
  }
  termsOf(terms, undone);
}

/** What one job is enqueued under; null: nothing. `usual`: the default of its definition. */
export function uniqueOf<Input>(
  type: string,
  payload: Input,
  usual: UniqueBy<Input> | undefined,
  given: UniqueOptions | false | undefined,
): Unique | null {
  if (given === false || (given === undefined && usual === undefined)) return null;
  const { by, ...terms } = usual ?? {};
  if (given === undefined) {
    const key = keyBy(type, by as (payload: Input) => string, payload);
    return { key: checkKey(key, 'unique.key'), ...termsOf(terms, NOTHING) };
  }
  checkKnown(given, { ...TERMS, key: true }, `unique of a job of "${type}"`, NOTHING);
  const { key, ...own } = given;
  // What is undefined is left to the definition.
  const said = Object.entries(own).filter(([, value]) => value !== undefined);
  const all = { ...terms, ...Object.fromEntries(said) } as UniqueTerms;
  return { key: checkKey(key, 'unique.key'), ...termsOf(all, NOTHING) };
}

function keyBy<Input>(type: string, by: (payload: Input) => string, payload: Input): string {
  try {
    return by(payload);
  } catch (error) {
    throw refused(`unique.by of job("${type}") threw for this payload.`, NOTHING, error);
  }
}
