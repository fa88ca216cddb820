/** Keys of a terminal, as its raw bytes come. */
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { type Key, readKeys } from './keys.js';

function pressed(...bytes: string[]): Key[] {
  const input = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => input });
  const keys: Key[] = [];
  readKeys(input as never, (key) => keys.push(key));
  for (const chunk of bytes) input.emit('data', Buffer.from(chunk, 'latin1'));
  return keys;
}

test('letters are keys, in both cases, and Ctrl-C is the end', () => {
  expect(pressed('b', 'B', '\u0003', '?')).toEqual(['b', 'b', 'q']);
});

test('arrows and function keys are none of ours', () => {
  expect(pressed('\u001b[A', '\u001b[B', '\u001b[C', '\u001b[D', '\u001bOQ', '\u001b[H')).toEqual(
    [],
  );
});
