import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { anyCharacter } from '../../../../../test/support/any-character.js';
import { HoldfastError } from './errors.js';
import { describeError, errorText } from './failure.js';

/** An error with a stack that does not depend on this file's lines. */
function failure(message: string, options?: ErrorOptions & { frame?: string }): Error {
  const error = new Error(message, options);
  error.stack = `Error: ${message}\n    at ${options?.frame ?? 'handler (app.js:1:1)'}`;
  return error;
}

function throwing(message: string): () => never {
  return () => {
    throw new Error(message);
  };
}

test('an error is written as name and message, its frames, and its causes in order', () => {
  const root = failure('ECONNREFUSED', { frame: 'connect (net.js:9:9)' });
  const error = failure('no receipt', { cause: failure('mail failed', { cause: root }) });
  expect(errorText(error)).toBe(
    [
      'Error: no receipt',
      '    at handler (app.js:1:1)',
      'Caused by: Error: mail failed',
      '    at handler (app.js:1:1)',
      'Caused by: Error: ECONNREFUSED',
      '    at connect (net.js:9:9)',
    ].join('\n'),
  );
});

test('the members of an AggregateError are written, five of them', () => {
  const errors = Array.from({ length: 7 }, (_, i) => failure(`part ${i}`));
  const text = errorText(new AggregateError(errors, 'all failed'));
  expect(text).toMatch(/^AggregateError: all failed\n {4}at /);
  expect(text).toContain('\nError 1 of 7: Error: part 0\n    at handler');
  expect(text).toContain('Error 5 of 7: Error: part 4');
  expect(text).not.toContain('part 5');
});

test('a class that did not set its name is still named, and a code is told', () => {
  class PaymentDeclined extends Error {
    code = 402;
  }
  expect(errorText(new PaymentDeclined('no funds'))).toMatch(/^PaymentDeclined: no funds\n {4}at /);
  expect(describeError(new PaymentDeclined('no funds'))).toMatchObject({
    name: 'PaymentDeclined',
    message: 'no funds',
    stack: expect.stringContaining('no funds\n    at '),
    code: '402',
  });
  expect(describeError(new HoldfastError('LEASE_LOST', 'gone'))).toMatchObject({
    name: 'HoldfastError',
    code: 'LEASE_LOST',
  });
});

test('lines of a message that look like frames are written once', () => {
  const text = errorText(failure('first\n    at second line'));
  expect(text).toBe('Error: first\n    at second line\n    at handler (app.js:1:1)');
});

test.each<[unknown, string]>([
  [null, 'NonError: null'],
  [undefined, 'NonError: undefined'],
  [42, 'NonError: 42'],
  [10n, 'NonError: the BigInt 10n'],
  ['boom', 'NonError: boom'],
  ['', 'NonError'],
  [Symbol('s'), 'NonError: Symbol(s)'],
  [() => 1, 'NonError: a function'],
  [{}, 'NonError: {  }'],
  [{ status: 500, body: { a: 1 } }, 'NonError: { status: 500, body: an object }'],
  [[1, 2], 'Array: an array of 2'],
  [Buffer.alloc(9), 'Buffer: 9 bytes'],
  [{ name: 'Odd', message: 'like an error' }, 'Odd: like an error'],
  [{ message: { nested: true } }, 'NonError: { nested: true }'],
])('anything can be thrown: %o', (thrown, text) => {
  expect(errorText(thrown)).toBe(text);
});

describe('hostile errors', () => {
  const { proxy: revoked, revoke } = Proxy.revocable({}, {});
  revoke();
  const trap = throwing('trap');
  const trapped = new Proxy(new Error('inside'), {
    get: trap,
    has: trap,
    ownKeys: trap,
    getPrototypeOf: trap,
    getOwnPropertyDescriptor: trap,
  });
  const throwingGetters = Object.defineProperties(new Error('x'), {
    // First, because V8 formats the stack, and so reads the message, to replace it.
    stack: { get: throwing('stack') },
    message: { get: throwing('message') },
    name: { get: throwing('name') },
    cause: { get: throwing('cause') },
    code: { get: throwing('code') },
    errors: { get: throwing('errors') },
  });
  const endless = {
    message: 'again',
    get cause(): unknown {
      return Object.create(endless, { fresh: { value: true } });
    },
  };

  // Wrapped in functions, because the test runner inspects what it is given.
  test.each<[string, () => unknown, RegExp]>([
    ['a revoked Proxy', () => revoked, /^Error: \(reading the message threw an error\)/],
    ['a Proxy whose traps throw', () => trapped, /^Error: \(reading the message threw an error\)/],
    ['getters that throw', () => throwingGetters, /^Error: \(reading the message threw an error\)/],
    [
      'causes without end',
      () => endless,
      /^(.*\n){5}Caused by: .*again\n\(more causes not shown\)$/,
    ],
    [
      'members that throw',
      () => ({ message: 'm', errors: [revoked, trapped] }),
      /Error 2 of 2: Error: /,
    ],
    ['a revoked list of members', () => ({ message: 'm', errors: revoked }), /^Error: m$/],
    [
      'properties of odd types',
      () => ({ name: 1, message: 2, stack: 3, code: {} }),
      /^NonError: 2$/,
    ],
  ])('%s: still described', (_, make, expected) => {
    const error = make();
    expect(errorText(error)).toMatch(expected);
    expect(describeError(error).message).toEqual(expect.any(String));
  });

  test('a cycle of causes ends where it closes', () => {
    const a = failure('a');
    const b = failure('b', { cause: a });
    a.cause = b;
    expect(errorText(a)).toMatch(
      /^Error: a\n.*\nCaused by: Error: b\n.*\nCaused by: \(an error al/,
    );
  });
});

test('a huge message is cut, quickly, and leaves room for the frames and the cause', () => {
  const cause = failure('the reason', { frame: 'cause (app.js:2:2)' });
  const error = failure('é'.repeat(5_000_000), { cause });
  const start = performance.now();
  const text = errorText(error);
  expect(performance.now() - start).toBeLessThan(500);
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(8192);
  expect(text).toContain('é… [cut, 10000000 bytes]\n    at handler (app.js:1:1)\nCaused by: Error');
  expect(text).toContain('cause (app.js:2:2)');
});

test('what Postgres cannot store is replaced', () => {
  const text = errorText('a\0b\ud800c\udc00😀');
  expect(text).toBe('NonError: a\uFFFDb\uFFFDc\uFFFD😀');
});

test('a cut falls between characters and says how much there was', () => {
  for (let maxBytes = 40; maxBytes < 60; maxBytes++) {
    const text = errorText('😀'.repeat(50), maxBytes);
    expect(text).toMatch(/^NonError: 😀*(… \[cut, \d+ bytes\])+$/u);
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(maxBytes);
  }
});

test('whatever was thrown, the text is storable and within its limit', () => {
  const odd = fc.oneof(
    fc.anything({
      withBigInt: true,
      withMap: true,
      withTypedArray: true,
      stringUnit: anyCharacter,
    }),
    fc.record({
      name: fc.anything(),
      message: fc.oneof(fc.anything(), fc.string({ unit: anyCharacter, maxLength: 2000 })),
      stack: fc.oneof(fc.anything(), fc.string({ unit: anyCharacter })),
      code: fc.anything(),
      cause: fc.anything(),
      errors: fc.oneof(fc.array(fc.anything()), fc.anything()),
    }),
    fc.array(fc.constantFrom('\0', '\ud800', '\udc00', 'é', 'x')).map((s) => s.join('')),
  );
  fc.assert(
    fc.property(odd, fc.integer({ min: 0, max: 500 }), (thrown, maxBytes) => {
      const parts = describeError(thrown, { maxBytes });
      for (const text of [errorText(thrown, maxBytes), ...Object.values(parts)]) {
        if (text === null) continue;
        expect(Buffer.byteLength(text)).toBeLessThanOrEqual(maxBytes);
        expect(text).not.toMatch(/[\0\p{Cs}]/u);
      }
    }),
    { numRuns: 1000 },
  );
});
