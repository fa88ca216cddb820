/**
 * Every bad input is refused with a clear error before anything is written, and the transaction of the
 * caller can go on.
 */
import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { testDatabase } from '../../../../test/support/database.js';
import { type EnqueueOptions, HoldfastError, holdfast, job } from '../index.js';

const db = testDatabase();
const work = job<unknown>('work');
let client: pg.PoolClient;

beforeAll(async () => {
  client = await db.pool.connect();
});
afterAll(() => client.release());

function cyclic(): unknown {
  const a: { list: unknown[] } = { list: [] };
  a.list.push({ back: a });
  return a;
}

function deep(): unknown {
  let value: unknown = 1;
  for (let i = 0; i < 200; i++) value = [value];
  return value;
}

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

class Money {
  cents = 1;
}

const PAYLOADS: [string, unknown, string, RegExp][] = [
  ['undefined', undefined, 'PAYLOAD_NOT_JSON', /payload is undefined/],
  ['undefined in an array', { a: [undefined] }, 'PAYLOAD_NOT_JSON', /payload\.a\[0\] is undefined/],
  ['a function', { f: () => 1 }, 'PAYLOAD_NOT_JSON', /payload\.f is a function/],
  ['a symbol', [Symbol('s')], 'PAYLOAD_NOT_JSON', /payload\[0\] is a symbol/],
  ['a symbol as a name', { [Symbol('s')]: 1 }, 'PAYLOAD_NOT_JSON', /symbol/],
  ['a BigInt', { n: 1n }, 'PAYLOAD_NOT_JSON', /payload\.n is a BigInt.*convert it to a string/],
  ['NaN', { n: Number.NaN }, 'PAYLOAD_NOT_JSON', /payload\.n is NaN/],
  ['Infinity', [Number.NEGATIVE_INFINITY], 'PAYLOAD_NOT_JSON', /-Infinity/],
  ['an invalid Date', { at: new Date('x') }, 'PAYLOAD_NOT_JSON', /payload\.at is an invalid Date/],
  ['a Map', { m: new Map() }, 'PAYLOAD_NOT_JSON', /Map.*Object\.fromEntries/],
  ['a Set', { s: new Set() }, 'PAYLOAD_NOT_JSON', /Set.*use an array/],
  ['a Buffer', { b: Buffer.from('x') }, 'PAYLOAD_NOT_JSON', /Buffer.*base64/],
  ['an instance of a class', { m: new Money() }, 'PAYLOAD_NOT_JSON', /class Money/],
  ['a cycle', cyclic(), 'PAYLOAD_NOT_JSON', /cycle/],
  ['a hole in an array', new Array(3), 'PAYLOAD_NOT_JSON', /hole/],
  ['too many levels', deep(), 'PAYLOAD_NOT_JSON', /deeper than the 100/],
  ['NUL in a text', { t: 'a\0b' }, 'PAYLOAD_NOT_JSON', /payload\.t contains the character NUL/],
  ['NUL in a name', { 'a\0b': 1 }, 'PAYLOAD_NOT_JSON', /NUL/],
  ['half of a surrogate pair', ['\ud83d'], 'PAYLOAD_NOT_JSON', /half of a surrogate pair/],
  ['__proto__', JSON.parse('{"a":{"__proto__":{}}}'), 'PAYLOAD_NOT_JSON', /__proto__/],
  [
    'a getter',
    {
      get x() {
        return 1;
      },
    },
    'PAYLOAD_NOT_JSON',
    /payload\.x is a getter/,
  ],
  ['a revoked proxy', revoked(), 'PAYLOAD_NOT_JSON', /could not be read/],
  ['1 MiB and a little', 'x'.repeat(1024 * 1024), 'PAYLOAD_TOO_LARGE', /1048578 bytes.*1048576/],
];

const far = () => new Date(Date.now() + 4_000 * 86_400_000);
const many = Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`h${i}`, 'x']));

const OPTIONS: [string, object, string, RegExp][] = [
  ['an empty key', { partitionKey: '' }, 'KEY_INVALID', /partitionKey must not be empty/],
  ['a key that is no text', { partitionKey: 9182 }, 'KEY_INVALID', /partitionKey must be a string/],
  ['a key of null', { partitionKey: null }, 'KEY_INVALID', /partitionKey must be a string/],
  ['a key of 513 bytes', { partitionKey: 'é'.repeat(257) }, 'KEY_INVALID', /514 bytes/],
  ['a key with NUL', { partitionKey: 'a\0' }, 'KEY_INVALID', /NUL/],
  ['a key with half a pair', { partitionKey: '\udc00' }, 'KEY_INVALID', /surrogate/],
  ['an empty idempotency key', { idempotencyKey: '' }, 'KEY_INVALID', /idempotencyKey must not/],
  ['a long idempotency key', { idempotencyKey: 'x'.repeat(513) }, 'KEY_INVALID', /513 bytes/],
  ['an idempotency key of a number', { idempotencyKey: 5 }, 'KEY_INVALID', /must be a string/],
  ['a negative delay', { delay: -1 }, 'OPTION_INVALID', /delay/],
  ['a delay of NaN', { delay: Number.NaN }, 'OPTION_INVALID', /delay/],
  ['an endless delay', { delay: Number.POSITIVE_INFINITY }, 'OPTION_INVALID', /delay/],
  ['a delay in words', { delay: 'tomorrow' }, 'OPTION_INVALID', /delay.*'30s'/],
  ['a delay of null', { delay: null }, 'OPTION_INVALID', /delay/],
  ['a delay of eleven years', { delay: '4015d' }, 'OPTION_INVALID', /delay is out of range/],
  ['an invalid date', { runAt: new Date('x') }, 'OPTION_INVALID', /not a valid Date/],
  ['a date as text', { runAt: '2030-01-01' }, 'OPTION_INVALID', /not a valid Date/],
  ['a date in eleven years', { runAt: far() }, 'OPTION_INVALID', /ten years/],
  ['both times', { delay: 1, runAt: new Date() }, 'OPTION_INVALID', /both given/],
  ['priority 0', { priority: 0 }, 'OPTION_INVALID', /priority.*1 to 4/],
  ['priority 5', { priority: 5 }, 'OPTION_INVALID', /priority.*1 to 4/],
  ['priority as text', { priority: '1' }, 'OPTION_INVALID', /priority/],
  ['priority 1.5', { priority: 1.5 }, 'OPTION_INVALID', /priority/],
  ['no attempts', { maxAttempts: 0 }, 'OPTION_INVALID', /maxAttempts.*1 to 10000/],
  ['too many attempts', { maxAttempts: 10_001 }, 'OPTION_INVALID', /maxAttempts/],
  ['headers as an array', { headers: ['a'] }, 'OPTION_INVALID', /headers/],
  ['headers as a Map', { headers: new Map() }, 'OPTION_INVALID', /headers/],
  ['headers of null', { headers: null }, 'OPTION_INVALID', /headers/],
  [
    'a header that is no text',
    { headers: { a: 1 } },
    'OPTION_INVALID',
    /header a must be a string/,
  ],
  ['a header name with a blank', { headers: { 'a b': 'x' } }, 'OPTION_INVALID', /header name/],
  ['too many headers', { headers: many }, 'OPTION_INVALID', /33 entries/],
  ['a long header', { headers: { a: 'x'.repeat(1_025) } }, 'OPTION_INVALID', /1025 characters/],
  ['a header with NUL', { headers: { a: '\0' } }, 'OPTION_INVALID', /NUL/],
];

async function refusedInTransaction(
  attempt: () => Promise<unknown>,
  code: string,
  message: RegExp,
): Promise<void> {
  await client.query('BEGIN');
  const error = (await attempt().catch((thrown) => thrown)) as Error;
  expect(error).toBeInstanceOf(HoldfastError);
  expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
  expect(error.message).toMatch(/nothing was (enqueued|done)/i);
  // The transaction is neither aborted nor has it anything to commit.
  const { rows } = await client.query(
    `SELECT (SELECT count(*) FROM holdfast.inbox) + (SELECT count(*) FROM holdfast.inbox_idempotency)
       AS n`,
  );
  expect(rows).toEqual([{ n: '0' }]);
  expect((await client.query('COMMIT')).command).toBe('COMMIT');
}

test.each(PAYLOADS)('payload: %s', (_, payload, code, message) =>
  refusedInTransaction(() => db.hf.enqueue(work, payload, { tx: client }), code, message),
);

test.each(OPTIONS)('options: %s', (_, options, code, message) =>
  refusedInTransaction(
    () => db.hf.enqueue(work, {}, { ...(options as EnqueueOptions), tx: client }),
    code,
    message,
  ),
);

test('one bad item of many is named by its place, and none is written', async () => {
  const items = [work.item(1, { idempotencyKey: 'a' }), work.item(2), work.item({ x: 1n })];
  await refusedInTransaction(
    () => db.hf.enqueueMany(items, { tx: client }),
    'PAYLOAD_NOT_JSON',
    /items\[2\]\.payload\.x is a BigInt/,
  );
});

test('a payload that does not fit its schema', async () => {
  const receipt = job('receipt', { schema: z.object({ id: z.number() }) });
  await client.query('BEGIN');
  const refused = db.hf.enqueue(receipt, { id: 'x' as never }, { tx: client });
  await expect(refused).rejects.toMatchObject({ code: 'PAYLOAD_INVALID' });
  expect((await client.query('SELECT count(*) AS n FROM holdfast.inbox')).rows).toEqual([
    { n: '0' },
  ]);
  await client.query('COMMIT');
});

test('the limit of the payload can be set, and is exact', async () => {
  const { holdfast } = await import('../index.js');
  const hf = holdfast({ connectionString: db.url, maxPayloadBytes: 10 });
  await hf.enqueue(work, 'é'.repeat(4));
  await expect(hf.enqueue(work, `${'é'.repeat(4)}x`)).rejects.toMatchObject({
    code: 'PAYLOAD_TOO_LARGE',
    message: expect.stringContaining('11 bytes'),
  });
  await hf.close();
  await db.rows('DELETE FROM holdfast.inbox');
});

test.each(['', '1st', 'a b', 'x'.repeat(101), 'a;b', 5])('the job type %j', (type) => {
  expect(() => job(type as string)).toThrow(expect.objectContaining({ code: 'TYPE_INVALID' }));
});

test.each([
  ['inbox', 'elsewhere', 'SCHEMA_MISSING', /"elsewhere" has no Holdfast tables.*holdfast migrate/],
  ['faraway', 'holdfast', 'QUEUE_UNKNOWN', /no queue "faraway".*createQueue/],
])('the queue %s in the schema %s is not there: %s', async (queue, schema, code, message) => {
  const there = job('there', { queue });
  const refused = { code, message: expect.stringMatching(message) };
  const hf = holdfast({ connectionString: db.url, schema, log: 'silent' });
  await expect(hf.enqueue(there, 1)).rejects.toMatchObject(refused);
  await expect(hf.enqueue(there, 1, { unique: { key: 'a' } })).rejects.toMatchObject(refused);
  await client.query('BEGIN');
  await expect(hf.enqueue(there, 1, { tx: client })).rejects.toMatchObject(refused);
  // As docs/errors.md says: Postgres found it, so the transaction has failed.
  expect((await client.query('COMMIT')).command).toBe('ROLLBACK');
  await hf.close();
});

test.each(['reason', 'actor'])('the %s of an act with NUL', async (name) => {
  await refusedInTransaction(
    () => db.hf.cancel([crypto.randomUUID()], { [name]: 'a\0b', tx: client }),
    'OPTION_INVALID',
    /contains the character NUL/,
  );
});
