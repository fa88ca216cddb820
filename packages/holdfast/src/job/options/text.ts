// Which strings Postgres can hold: its text and jsonb know neither NUL nor half of a surrogate pair. And how long strings
// are in UTF-8 bytes, the unit of every size limit. It runs in a browser too.

// With the u flag, \p{Cs} matches only surrogates that are not part of a pair.
const UNSTORABLE = /[\0\p{Cs}]/u;

/** What makes this text impossible to store, in words for an error message, or null if nothing. */
export function unstorable(text: string): string | null {
  const found = UNSTORABLE.exec(text);
  if (found === null) return null;
  return found[0] === '\0' ? 'the character NUL (\\u0000)' : 'half of a surrogate pair';
}

/** The length in UTF-8 bytes; half of a surrogate pair counts as U+FFFD does, three. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) continue;
    bytes += unit < 0x800 ? 1 : 2;
    // Its two units make four bytes.
    if (isPairAt(text, i, unit)) i += 1;
  }
  return bytes;
}

/** Does a whole surrogate pair begin at index i, whose unit is given? */
export function isPairAt(text: string, i: number, unit: number): boolean {
  // charCodeAt past the end is NaN, whose bits are 0.
  return (unit & 0xfc00) === 0xd800 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00;
}
