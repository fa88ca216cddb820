/**
 * What a database cannot store in its own encoding, in words that every database can. A database in LATIN1 refuses
 * an error that speaks of €; the attempt has failed all the same, and the reason must be kept.
 */
import { MAX_BYTES } from '../job/errors/failure.js';

const UNSTORABLE = new Set(['22P05', '22021']);

/** The database's encoding cannot hold some character. */
export function isUnstorable(error: unknown): boolean {
  return UNSTORABLE.has((error as { code?: string } | null)?.code ?? '');
}

/** For the `reword` of settlements: these texts of an item in ASCII; null if they are, or are not the reason. */
export function asAscii<Name extends string>(...names: Name[]) {
  return <Item extends Readonly<Record<Name, string>>>(item: Item, error: unknown): Item | null => {
    if (!isUnstorable(error)) return null;
    const plain = Object.fromEntries(names.map((name) => [name, inAscii(item[name])]));
    return names.every((name) => plain[name] === item[name]) ? null : { ...item, ...plain };
  };
}

function inAscii(text: string): string {
  const escaped = (character: string) => `\\u{${character.codePointAt(0)?.toString(16)}}`;
  // Escapes are longer than what they stand for.
  return text.replace(/[^\t\n -~]/gu, escaped).slice(0, MAX_BYTES);
}
