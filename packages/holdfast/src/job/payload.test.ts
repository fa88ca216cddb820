import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { anyCharacter } from '../../../../test/support/any-character.js';
import { HoldfastError } from './errors/errors.js';
import { encodePayload } from './payload.js';

const MEGABYTE = 1 << 20;

function encode(value: unknown, maxBytes = MEGABYTE): string {
  return encodePayload(value, { maxBytes, what: 'payload' });
}

/** A JSON value that jsonb can hold: no NUL, no names that are refused on purpose. */
const jsonValues = fc
  .jsonValue({ stringUnit: anyCharacter })
  .filter((value) => !/\\u0000|"__proto__":/.test(JSON.stringify(value)));

test('whatever jsonb can hold comes back as it was given', () => {
  fc.assert(
    fc.property(jsonValues, (value) => {
      const before = structuredClone(value);
      const text = encode(value);
      // JSON has no -0, so both sides go through JSON once.
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      expect(text).toBe(JSON.stringify(value));
      expect(value).toEqual(before);
    }),
    { numRuns: 500 },
  );
});

test('frozen objects, objects without a prototype and of another realm are plain data too', () => {
  const bare = Object.assign(Object.create(null), { a: [1] });
  expect(encode(Object.freeze(bare))).toBe('{"a":[1]}');
  expect(encode(runInNewContext('({ list: [{ a: 1 }] })'))).toBe('{"list":[{"a":1}]}');
});

test('one object in two places is written twice, it is no cycle', () => {
  const address = { city: 'Bern' };
  expect(encode({ from: address, to: address })).toBe(
    '{"from":{"city":"Bern"},"to":{"city":"Bern"}}',
  );
});

describe('as JSON.stringify does it', () => {
  class Money {
    readonly cents: number;
    constructor(cents: number) {
      this.cents = cents;
    }
    toJSON(key: string) {
      return { [key]: this.cents, currency: undefined };
    }
  }

  test.each<[unknown]>([
    [{ a: undefined, b: 1, c: { d: undefined } }],
    [{ at: new Date(0), list: [new Date(1)] }],
    [new Date(2)],
    [{ link: new URL('https://example.com/a?b=c') }],
    [{ price: new Money(99), prices: [new Money(1)] }],
    [new Money(5)],
    [{ gone: { toJSON: () => undefined }, kept: 1 }],
    [{ toJSON: () => 1 }],
    [{ nested: { toJSON: () => ({ at: new Date(3), gone: undefined }) } }],
    [{ once: { toJSON: () => ({ toJSON: null }) } }],
  ])('%# a property that is undefined is left out, and toJSON is asked', (value) => {
    const text = JSON.stringify(value);
    expect(encode(value)).toBe(text);
  });

  test('a BigInt may have a toJSON, too', () => {
    const prototype = BigInt.prototype as { toJSON?: unknown };
    prototype.toJSON = function (this: bigint) {
      return this.toString();
    };
    onTestFinished(() => {
      delete prototype.toJSON;
    });
    expect(encode({ id: 9182n })).toBe('{"id":"9182"}');
  });

  test('what a toJSON throws is the cause, and the path says where', () => {
    const cause = new Error('no');
    const value = {
      toJSON() {
        throw cause;
      },
    };
    const act = () => encode({ orders: [value] });
    expect(act).toThrow('payload.orders[0] could not be read; nothing was enqueued');
    expect(act).toThrow(expect.objectContaining({ code: 'PAYLOAD_NOT_JSON', cause }));
  });
});

test('what is not enumerable is no part of the value', () => {
  const value = Object.defineProperty({ a: 1 }, 'hidden', { get: () => 2 });
  expect(encode(value)).toBe('{"a":1}');
});

class Order {
  id = 1;
}
class List extends Array {}

const cycle: Record<string, unknown> = { items: [{}] };
(cycle.items as object[]).push({ order: cycle });
const holes = [1, 2];
holes[3] = 4;

let deep: unknown = 'bottom';
for (let i = 0; i < 101; i++) deep = [deep];

describe('what else JSON would drop or convert is refused, with its path and the fix', () => {
  test.each<[unknown, string]>([
    [undefined, 'payload is undefined; nothing was enqueued; use null'],
    [[1, undefined], 'payload[1] is undefined; nothing was enqueued; use null'],
    [holes, 'payload[2] is a hole in the array'],
    [{ f() {} }, 'payload.f is a function'],
    [[Symbol('s')], 'payload[0] is a symbol'],
    [
      { items: [0, 1, 2, { price: 5n }] },
      'payload.items[3].price is a BigInt; nothing was enqueued; convert it to a string',
    ],
    [{ n: Number.NaN }, 'payload.n is NaN'],
    [Number.NEGATIVE_INFINITY, 'payload is -Infinity'],
    [cycle, 'payload.items[1].order refers back to payload, a cycle'],
    [
      { at: new Date(Number.NaN) },
      'payload.at is an invalid Date; nothing was enqueued; use null or a valid one',
    ],
    [[runInNewContext('new Date(NaN)')], 'payload[0] is an invalid Date'],
    [[{ toJSON: () => undefined }], 'payload[0] is undefined'],
    [{ order: { toJSON: () => new Map() } }, 'payload.order is an instance of the class Map'],
    [new Map(), 'payload is an instance of the class Map'],
    [[new Set()], 'payload[0] is an instance of the class Set'],
    [new Order(), 'payload is an instance of the class Order'],
    [new List(), 'payload is an instance of the class List'],
    [Buffer.from('x'), 'payload is an instance of the class Buffer'],
    [new Float64Array(1), 'payload is an instance of the class Float64Array'],
    [new Error('x'), 'payload is an instance of the class Error'],
    [Object('boxed'), 'payload is an instance of the class String'],
    [Promise.resolve(), 'payload is an instance of the class Promise'],
    [Object.create({ inherited: 1 }), 'payload has a prototype of its own'],
    ['a\0', 'payload contains the character NUL'],
    [{ 'a\0': 1 }, 'payload["a\\u0000"] contains the character NUL'],
    [{ a: { 'b c': '\ud800' } }, 'payload.a["b c"] contains half of a surrogate pair'],
    [{ '\udc00': 1 }, 'contains half of a surrogate pair'],
    [JSON.parse('{"a":{"__proto__":1}}'), 'payload.a.__proto__ would replace the prototype'],
    [deep, 'lies deeper than the 100 levels allowed'],
    [{ a: { [Symbol('k')]: 1 } }, 'payload.a has a symbol as a property name'],
  ])('%# %o', (value, message) => {
    const act = () => encode(value);
    expect(act).toThrow(message);
    expect(act).toThrow(expect.objectContaining({ code: 'PAYLOAD_NOT_JSON' }));
  });
});

test('a payload may be 100 levels deep', () => {
  expect(encode((deep as unknown[])[0])).toBe(`${'['.repeat(100)}"bottom"${']'.repeat(100)}`);
});

test('a getter is refused without being run', () => {
  let runs = 0;
  const value = {
    get total() {
      runs += 1;
      return runs;
    },
  };
  expect(() => encode({ order: value })).toThrow('payload.order.total is a getter');
  expect(runs).toBe(0);
});

test('what a Proxy throws is the cause, and the path says where', () => {
  const cause = new HoldfastError('LEASE_LOST', 'not an error of the payload');
  const hostile = new Proxy(
    {},
    {
      ownKeys() {
        throw cause;
      },
    },
  );
  const act = () => encode({ list: [{}, hostile] });
  expect(act).toThrow('payload.list[1] could not be read; nothing was enqueued');
  expect(act).toThrow(expect.objectContaining({ code: 'PAYLOAD_NOT_JSON', cause }));
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  expect(() => encode([proxy])).toThrow('payload[0] could not be read');
});

test('a value that changes while it is read cannot slip bad data past the check', () => {
  let reads = 0;
  const shifty = new Proxy(['good'], {
    get(target, name) {
      if (name !== '0') return Reflect.get(target, name);
      reads += 1;
      return reads === 1 ? 'good' : 'b\0d';
    },
  });
  expect(encode(shifty)).toBe('["good"]');
});

test('the size limit counts UTF-8 bytes of the text, and the message names size and option', () => {
  expect(encode('é'.repeat(4), 10)).toBe('"éééé"');
  const act = () => encode('é'.repeat(5), 10);
  expect(act).toThrow(expect.objectContaining({ code: 'PAYLOAD_TOO_LARGE' }));
  expect(act).toThrow('payload is 12 bytes of JSON, more than the 10 bytes allowed');
  expect(act).toThrow('maxPayloadBytes');
  expect(() => encode({ a: '😀'.repeat(100) }, 400)).toThrow('payload is 408 bytes');
});

test('a payload that would write exponentially much is refused in time', () => {
  let value: unknown = 'x';
  for (let i = 0; i < 60; i++) value = [value, value];
  expect(() => encode(value, 10_000)).toThrow(
    expect.objectContaining({ code: 'PAYLOAD_TOO_LARGE' }),
  );
});

test('any value at all is either encoded or refused with a HoldfastError', () => {
  const anything = fc.anything({
    withBigInt: true,
    withBoxedValues: true,
    withDate: true,
    withMap: true,
    withSet: true,
    withTypedArray: true,
    withSparseArray: true,
    withNullPrototype: true,
    stringUnit: anyCharacter,
  });
  fc.assert(
    fc.property(anything, (value) => {
      try {
        const text = encode(value);
        expect(encode(JSON.parse(text))).toBe(JSON.stringify(JSON.parse(text)));
      } catch (error) {
        expect(error).toMatchObject({ code: 'PAYLOAD_NOT_JSON' });
        expect((error as Error).message).toMatch(/^payload.*; nothing was enqueued; /s);
      }
    }),
    { numRuns: 1000 },
  );
});
