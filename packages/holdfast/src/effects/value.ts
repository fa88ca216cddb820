/**
 * The value of an effect, as its marker keeps it and gives it back. The effect has happened before its value is known, so
 * a value that JSON cannot hold must not cost the marker: it keeps what JSON can hold, or no value, and a warning says so.
 */
import { HoldfastError, invalid, shown } from '../job/errors/holdfast-error.js';
import { checkKnown, type Known } from '../job/options/known-options.js';
import { encodePayload } from '../job/payload.js';

/** What `ctx.once()` returns where the marker keeps no value. */
export interface OnceOptions<Fallback> {
  /**
   * Called, in each attempt, when the marker keeps no value: it was too large, or Postgres cannot store it. The effect has
   * happened and is not repeated; look its value up elsewhere, or throw DeadLetter.
   */
  readonly fallback: () => Fallback | Promise<Fallback>;
}

const ONCE_OPTIONS = { fallback: true } as const satisfies Known<OnceOptions<unknown>>;

/** Throws before the effect begins. */
export function checkOnce(options: OnceOptions<unknown>): void {
  const undone = 'The effect did not run.';
  checkKnown(options, ONCE_OPTIONS, 'ctx.once()', undone);
  if (typeof options?.fallback === 'function') return;
  throw invalid(
    `The fallback of ctx.once() must be a function, not ${shown(options?.fallback)}. ${undone}`,
  );
}

export async function withFallback(made: Promise<unknown>, options: OnceOptions<unknown>) {
  const value = await made;
  return value === undefined ? options.fallback() : value;
}

/** A marker without a value, as of an effect that returned nothing. */
export const NO_VALUE = '{}';

export interface KeptValue {
  /** For `recordEffect`. */
  readonly text: string;
  /** What the marker cannot keep as it is, and what to return instead; null if it keeps everything. */
  readonly problem: string | null;
}

export function keepValue(value: unknown, name: string, maxBytes: number): KeptValue {
  if (value === undefined) return { text: NO_VALUE, problem: null };
  const options = {
    maxBytes,
    what: `the value of the effect "${name}"`,
    consequence: 'the effect is recorded with what JSON can hold of it, and is not repeated',
  };
  try {
    return { text: marked(encodePayload(value, options)), problem: null };
  } catch (error) {
    const { message, code } = error as HoldfastError;
    // The rest of a value that is too large is not worth keeping: half of it would be taken for the whole.
    const held = code === 'PAYLOAD_TOO_LARGE' ? undefined : asJson(value);
    try {
      if (held !== undefined)
        return { text: marked(encodePayload(held, options)), problem: message };
    } catch (again) {
      if (!(again instanceof HoldfastError)) throw again;
    }
    return { text: NO_VALUE, problem: message };
  }
}

const marked = (json: string) => `{"value":${json}}`;

/** What JSON makes of a value; undefined if that is nothing, as of a cycle or a getter that throws. */
function asJson(value: unknown): unknown {
  try {
    const text = JSON.stringify(value, (_, part) =>
      typeof part === 'bigint' ? String(part) : part,
    );
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
