/**
 * The keys: what each does, and reading them from the terminal. A terminal in raw mode hands
 * Ctrl-C on as a byte; it means the same as `q`.
 */
import type { Span } from './screen.js';

export const KEYS = {
  k: 'kill -9',
  f: 'freeze',
  c: 'cut off',
  a: 'add',
  d: 'drain',
  b: 'burst',
  h: 'hot key',
  q: 'quit',
} as const;
export type Key = keyof typeof KEYS;

export function keyLine(): Span[] {
  return Object.entries(KEYS).flatMap(([key, what], n): Span[] => [
    [`${n > 0 ? '  ' : ''}${key}`, 'bold'],
    ` ${what}`,
  ]);
}

const CTRL_C = '\u0003';

/** Returns how to stop. Null: there is no terminal to read from. */
export function readKeys(input: NodeJS.ReadStream, press: (key: Key) => void): (() => void) | null {
  if (!input.isTTY) return null;
  const onData = (data: Buffer) => {
    // An arrow or a function key is ESC and letters, which are no keys of ours.
    if (data[0] === 0x1b) return;
    for (const sign of data.toString('latin1')) {
      const key = sign === CTRL_C ? 'q' : sign.toLowerCase();
      if (key in KEYS) press(key as Key);
    }
  };
  input.setRawMode(true);
  input.on('data', onData);
  input.resume();
  return () => {
    input.off('data', onData);
    input.setRawMode(false);
    input.pause();
  };
}
