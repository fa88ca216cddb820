import fc from 'fast-check';
import { expect, test } from 'vitest';
import { anyCharacter } from '../../../../../test/support/any-character.js';
import { unstorable, utf8Length } from './text.js';

test('a text is measured in the bytes that it takes as UTF-8', () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), fc.string({ unit: 'binary-ascii' }), (a, b) => {
      expect(utf8Length(a + b)).toBe(Buffer.byteLength(a + b));
    }),
  );
  for (const odd of ['\ud800', '\udc00x', 'x\ud800', '\ud800\ud800\udc00', '\udc00\ud800']) {
    expect(utf8Length(odd)).toBe(Buffer.byteLength(odd));
  }
});

test('NUL and halves of surrogate pairs are found, whole pairs are not', () => {
  expect(unstorable('a\0b')).toContain('NUL');
  expect(unstorable('a\ud83d')).toContain('surrogate');
  expect(unstorable('\ude00a')).toContain('surrogate');
  expect(unstorable('\ude00\ud83d')).toContain('surrogate');
  expect(unstorable('a\ud83d\ude00\u0001\u{10ffff}')).toBeNull();
});
