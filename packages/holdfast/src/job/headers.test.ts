import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeHeaders } from './headers.js';

test('headers come back as they were given', () => {
  const names = fc.stringMatching(/^[A-Za-z0-9_.-]{1,100}$/).filter((name) => name !== '__proto__');
  const values = fc.string({ unit: 'grapheme', maxLength: 100 }).filter((s) => !s.includes('\0'));
  fc.assert(
    fc.property(fc.dictionary(names, values, { maxKeys: 32 }), (headers) => {
      expect(JSON.parse(encodeHeaders(headers)!)).toEqual({ ...headers });
    }),
  );
});

test('no headers are stored as nothing', () => {
  expect(encodeHeaders(undefined)).toBeNull();
});

test('the limits themselves are allowed', () => {
  const full = Object.fromEntries(Array.from({ length: 32 }, (_, i) => [`h${i}`, 'v']));
  expect(JSON.parse(encodeHeaders(full)!)).toEqual(full);
  const long = { ['n'.repeat(100)]: 'v'.repeat(1024) };
  expect(JSON.parse(encodeHeaders(long)!)).toEqual(long);
});

const many = Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`h${i}`, 'v']));

test.each<[unknown, string]>([
  [null, 'headers must be a plain object of strings, got null'],
  ['a=b', 'got string'],
  [['a'], 'headers must be a plain object'],
  [new Map([['a', 'b']]), 'headers must be a plain object'],
  [new Headers({ a: 'b' }), 'headers must be a plain object'],
  [many, 'headers has 33 entries, more than the 32 allowed'],
  [{ 'a b': 'c' }, '"a b" is not a header name'],
  [{ '': 'c' }, '"" is not a header name'],
  [{ ['n'.repeat(101)]: 'c' }, 'is not a header name'],
  [JSON.parse('{"__proto__":"c"}'), '"__proto__" is not a header name'],
  [{ a: 1 }, 'header a must be a string, got number'],
  [{ a: undefined }, 'header a must be a string, got undefined'],
  [{ a: { b: 'c' } }, 'header a must be a string, got object'],
  [{ a: 'v'.repeat(1025) }, 'header a has 1025 characters, more than the 1024 allowed'],
  [{ a: 'x\0' }, 'header a contains the character NUL'],
  [{ a: '\ud800' }, 'header a contains half of a surrogate pair'],
])('headers are refused, saying which and why: %o', (headers, message) => {
  const act = () => encodeHeaders(headers);
  expect(act).toThrow(message);
  expect(act).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
});

test('headers that cannot be read are refused with what was thrown as the cause', () => {
  const cause = new Error('getter');
  const headers = {
    get trace() {
      throw cause;
    },
  };
  expect(() => encodeHeaders(headers)).toThrow(expect.objectContaining({ cause }));
});
