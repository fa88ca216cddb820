/**
 * Any character of Unicode, as fast-check's own unit `binary` draws them. That one keeps a table of all 1.1 million in
 * each process: a second of processor time, and a hundred megabytes that every later garbage collection reads.
 */
import fc from 'fast-check';

const CHARACTERS = 0x110000;
const [FIRST_SURROGATE, SURROGATES] = [0xd800, 0x800];

const character = (n: number) => String.fromCodePoint(n < FIRST_SURROGATE ? n : n + SURROGATES);

/** The way back: with it fast-check draws `__proto__` and its like among the texts as well. */
function numberOf(text: unknown): number {
  const code = typeof text === 'string' ? text.codePointAt(0) : undefined;
  const n = code !== undefined && code >= FIRST_SURROGATE ? code - SURROGATES : code;
  if (n === undefined || n < 0 || character(n) !== text) throw new Error('not one character');
  return n;
}

export const anyCharacter = fc.nat(CHARACTERS - SURROGATES - 1).map(character, numberOf);
