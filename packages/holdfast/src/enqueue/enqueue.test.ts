/** What a producer asked for is what is stored, and one call is one statement. */
import fc from 'fast-check';
import * as v from 'valibot';
import { beforeEach, describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import { anyCharacter } from '../../../../test/support/any-character.js';
import { testDatabase } from '../../../../test/support/database.js';
import { gate, testWorkers } from '../../../../test/support/workers.js';
import { bucketOf, type EnqueueOptions, hash32, job, type Queryable } from '../index.js';

const db = testDatabase();
const start = testWorkers();
const work = job<unknown>('work');

beforeEach(() => db.rows('DELETE FROM holdfast.inbox'));

const stored = async (id: string) =>
  (
    await db.rows(
      `SELECT *, extract(epoch FROM available_at - now())::float8 AS due_in,
         payload::text AS payload_text
       FROM holdfast.inbox WHERE id = $1`,
      [id],
    )
  )[0]!;
const count = async () => Number((await db.rows('SELECT count(*) AS n FROM holdfast.inbox'))[0]!.n);

test('by default a job is due now, of priority 2, with 5 attempts and a stream of its own', async () => {
  const { id, deduplicated } = await db.hf.enqueue(work, { a: 1 });
  expect(deduplicated).toBe(false);
  const row = await stored(id);
  expect(row).toMatchObject({
    status: 'pending',
    type: 'work',
    version: 1,
    priority: 2,
    attempts: 0,
    max_attempts: 5,
    partition_key: id,
    partition_bucket: bucketOf(id),
    payload: { a: 1 },
    headers: null,
    idempotency_key: null,
    lease_generation: '0',
  });
  expect(row.due_in).toBeLessThanOrEqual(0);
});

test('options of the call come before those of the definition, which come before the defaults', async () => {
  const rare = job('rare', { priority: 4, maxAttempts: 9, version: 3 });
  expect(await stored((await db.hf.enqueue(rare, {})).id)).toMatchObject({
    priority: 4,
    max_attempts: 9,
    version: 3,
  });
  const own = await db.hf.enqueue(rare, {}, { priority: 1, maxAttempts: 100 });
  expect(await stored(own.id)).toMatchObject({ priority: 1, max_attempts: 100 });
});

describe('each of many jobs is stored as if it had come alone', () => {
  const rare = job<unknown>('rare', { priority: 4, maxAttempts: 9, version: 3 });
  const usual = [work.item(1), work.item(2), work.item(3)];
  const ownWay = [
    rare.item(4, { partitionKey: 'k', headers: { a: 'b' }, delay: '1h' }),
    work.item(5, { partitionKey: 'k', runAt: new Date(Date.now() + 7_200_000) }),
    rare.item(6),
  ];
  const at = (row: Record<string, unknown>) => Math.round(Number(row.due_in) / 600);
  test.each([
    ['all alike', usual],
    ['all alike and not as usual', [rare.item(1), rare.item(2)]],
    ['all with keys', [work.item(1, { partitionKey: 'a' }), work.item(2, { partitionKey: 'b' })]],
    ['no two alike', [...usual, ...ownWay]],
    ['the first unlike the others', [ownWay[0]!, ...usual]],
    ['with idempotency keys', [work.item(1, { idempotencyKey: 'many-1' }), ...ownWay, ...usual]],
  ])('%s', async (_, items) => {
    const together = await db.hf.enqueueMany(items);
    for (const [index, { id }] of together.entries()) {
      const { job: definition, payload, options } = items[index]!;
      const { idempotencyKey: _key, ...rest } = options;
      const alone = await stored((await db.hf.enqueue(definition, payload as never, rest)).id);
      const row = await stored(id);
      const facts = [
        'type',
        'version',
        'payload',
        'headers',
        'priority',
        'max_attempts',
        'ordering',
      ];
      for (const fact of facts) expect(row[fact]).toEqual(alone[fact]);
      expect(row.partition_key).toBe(options.partitionKey ?? id);
      expect(row.partition_bucket).toBe(bucketOf(String(row.partition_key)));
      expect(at(row)).toBe(at(alone));
    }
  });
});

test.each<[string, EnqueueOptions, number]>([
  ['delay in text', { delay: '90s' }, 90],
  ['delay in milliseconds', { delay: 1_500 }, 1.5],
  ['a delay of ten years', { delay: '3650d' }, 3650 * 86_400],
  ['a delay of nothing', { delay: 0 }, 0],
  ['runAt', { runAt: new Date(Date.now() + 3_600_000) }, 3_600],
  ['an runAt that is past means now', { runAt: new Date('2001-01-01') }, 0],
  ['an runAt before 1970 too', { runAt: new Date(-8.64e15) }, 0],
])('when it is due: %s', async (_, options, seconds) => {
  const { id } = await db.hf.enqueue(work, {}, options);
  const { due_in } = (await stored(id)) as { due_in: number };
  expect(due_in).toBeLessThanOrEqual(seconds + 0.5);
  expect(due_in).toBeGreaterThan(seconds - 20);
});

test('key, headers and payload come back as they were given, in any script', async () => {
  const headers = { trace: 'a"b\\c', 'x-tenant.id': '東京 😀' };
  const payload = {
    text: 'line\nbreak "quoted" \\ {braces} , \u2028 \u007f 😀 ﷽',
    numbers: [0, -1.5, 1e300, 1e-300, Number.MAX_SAFE_INTEGER],
    nested: { a: [{ b: [null, true, false] }], '': 'empty name', constructor: 'x' },
  };
  const key = `order:"9182" {x},\\ 注文 😀`;
  const { id } = await db.hf.enqueue(work, payload, { partitionKey: key, headers });
  const row = await stored(id);
  expect(row.payload).toEqual(payload);
  expect(row.headers).toEqual(headers);
  expect(row.partition_key).toBe(key);
  expect(row.partition_bucket).toBe(bucketOf(key));
});

test.each([null, 'text', 0, false, [], {}, [[[]]], ''])(
  'the payload %j is stored as it is',
  async (payload) => {
    const { id } = await db.hf.enqueue(work, payload);
    expect(JSON.parse((await stored(id)).payload_text as string)).toEqual(payload);
  },
);

/** A client that counts the statements that pass through it. */
function counting(): Queryable & { texts: string[] } {
  const texts: string[] = [];
  return {
    texts,
    query(text, params) {
      texts.push(text);
      return db.pool.query(text, params);
    },
  };
}

test.each([
  ['without idempotency keys', () => ({})],
  ['with idempotency keys', (n: number) => ({ idempotencyKey: `bulk:${n}` })],
])(
  '10,000 jobs %s are one call and one statement, and their ids come back in order',
  async (_, options) => {
    const tx = counting();
    const items = Array.from({ length: 10_000 }, (_, n) => work.item({ n }, options(n)));
    const enqueued = await db.hf.enqueueMany(items, { tx });
    // Beside the question that a process asks once in ten seconds, whether the queue has a limit.
    expect(tx.texts.filter((text) => !text.includes('max_pending'))).toHaveLength(1);
    expect(enqueued.every(({ deduplicated }) => deduplicated === false)).toBe(true);
    const rows = await db.rows<{ id: string; n: number }>(
      `SELECT id, (payload ->> 'n')::int AS n FROM holdfast.inbox ORDER BY position`,
    );
    expect(rows.map(({ n }) => n)).toEqual(items.map((_, n) => n));
    expect(rows.map(({ id }) => id)).toEqual(enqueued.map(({ id }) => id));
  },
);

test('no jobs are no statement; more than 50,000 are refused before one is sent', async () => {
  const tx = counting();
  expect(await db.hf.enqueueMany([], { tx })).toEqual([]);
  const items = Array.from({ length: 50_001 }, () => work.item(1));
  await expect(db.hf.enqueueMany(items, { tx })).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  expect(tx.texts).toEqual([]);
});

test('a job commits with the transaction of its caller and vanishes with it', async () => {
  const client = await db.pool.connect();
  await client.query('BEGIN');
  await db.hf.enqueue(work, {}, { tx: client });
  expect(await count()).toBe(0);
  await client.query('ROLLBACK');
  expect(await count()).toBe(0);
  await client.query('BEGIN');
  await db.hf.enqueueMany([work.item(1), work.item(2)], { tx: client });
  await client.query('COMMIT');
  client.release();
  expect(await count()).toBe(2);
});

describe('schemas', () => {
  const zodReceipt = job('zod_receipt', {
    schema: z.object({
      orderId: z.string().transform(Number),
      at: z.iso.datetime().transform((text) => new Date(text)),
      note: z.string().default('none'),
    }),
  });
  const valibotReceipt = job('valibot_receipt', {
    schema: v.object({
      orderId: v.pipe(v.string(), v.transform(Number)),
      at: v.pipe(
        v.string(),
        v.isoTimestamp(),
        v.transform((text) => new Date(text)),
      ),
      note: v.optional(v.string(), 'none'),
    }),
  });
  const input = { orderId: '9182', at: '2026-01-02T03:04:05.000Z' };

  test.each([
    ['zod', zodReceipt],
    ['valibot', valibotReceipt],
  ])('%s: the input is stored, the handler gets the output', async (_, receipt) => {
    const seen = gate<unknown>();
    const { id } = await db.hf.enqueue(receipt, input);
    expect((await stored(id)).payload).toEqual(input);
    start(db.hf, (w) => w.handle(receipt, ({ payload }) => seen.open(payload)));
    expect(await seen.opened).toEqual({ orderId: 9182, at: new Date(input.at), note: 'none' });
  });

  test.each([
    ['zod', zodReceipt],
    ['valibot', valibotReceipt],
  ])(
    '%s: what does not fit is refused with the path, without the value, and not written',
    async (_, receipt) => {
      const wrong = { ...input, at: 'secret-value' };
      const refused = db.hf.enqueueMany([receipt.item(input), receipt.item(wrong)]);
      await expect(refused).rejects.toMatchObject({
        code: 'PAYLOAD_INVALID',
        message: expect.stringMatching(/^(?!.*secret-value).*at: /),
      });
      expect(await count()).toBe(0);
    },
  );

  test('a schema that answers later is waited for', async () => {
    const schema = z.object({ n: z.number().refine(async (n) => n > 0, 'not positive') });
    const late = job('late', { schema });
    await db.hf.enqueue(late, { n: 1 });
    await expect(db.hf.enqueue(late, { n: -1 })).rejects.toMatchObject({
      code: 'PAYLOAD_INVALID',
      message: expect.stringContaining('n: not positive'),
    });
    expect(await count()).toBe(1);
  });

  test('the schema sees what is stored: a Date is a text by then', async () => {
    const wants = job('wants_date', { schema: z.object({ at: z.any().pipe(z.date()) }) });
    await expect(db.hf.enqueue(wants, { at: new Date() })).rejects.toMatchObject({
      code: 'PAYLOAD_INVALID',
      message: expect.stringContaining('at: '),
    });
    expect(await count()).toBe(0);
    const takes = job('takes_date', { schema: z.object({ at: z.coerce.date() }) });
    const at = new Date(input.at);
    const { id } = await db.hf.enqueue(takes, { at, note: undefined } as { at: Date });
    expect((await stored(id)).payload).toEqual({ at: input.at });
    const seen = gate<unknown>();
    start(db.hf, (w) => w.handle(takes, ({ payload }) => seen.open(payload)));
    expect(await seen.opened).toEqual({ at });
  });

  test("a producer writes the schema's input type, a handler reads its output type", () => {
    expectTypeOf(db.hf.enqueue<z.input<never>>).toBeFunction();
    expectTypeOf(zodReceipt.item).parameter(0).toExtend<{ orderId: string; at: string }>();
    expectTypeOf(zodReceipt.check).returns.resolves.toExtend<{ orderId: number; at: Date }>();
    expectTypeOf(valibotReceipt.item).parameter(0).toExtend<{ orderId: string; at: string }>();
    expectTypeOf(valibotReceipt.check).returns.resolves.toExtend<{ orderId: number; at: Date }>();
  });
});

describe('buckets', () => {
  const anyKey = fc.oneof(
    fc.string({ unit: anyCharacter, minLength: 1, maxLength: 40 }),
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }),
    fc.string({ unit: 'binary-ascii', minLength: 1, maxLength: 120 }),
    fc.nat().map((n) => `order:${n}`),
    fc.uuid(),
  );
  // NUL is no key: Postgres cannot hold it, and enqueue refuses it.
  const keys = anyKey.map((key) => key.replaceAll('\0', '0'));

  test('TypeScript and SQL compute the same hash and bucket for any Unicode key', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(keys, { minLength: 300, maxLength: 300 }), async (batch) => {
        const rows = await db.rows<{ hash: string; bucket: number }>(
          `SELECT holdfast.hash32(key) AS hash, holdfast.bucket_of(key) AS bucket
           FROM unnest($1::text[]) WITH ORDINALITY AS k(key, n) ORDER BY n`,
          [batch],
        );
        expect(rows.map(({ hash }) => Number(hash))).toEqual(batch.map(hash32));
        expect(rows.map(({ bucket }) => bucket)).toEqual(batch.map(bucketOf));
      }),
      { numRuns: 10 },
    );
  });

  test('the bucket of every stored job is that of its key', async () => {
    const batch = fc.sample(keys, 1_000);
    await db.hf.enqueueMany(batch.map((key) => work.item(1, { partitionKey: key })));
    const wrong = await db.rows(
      `SELECT partition_key FROM holdfast.inbox
       WHERE partition_bucket <> holdfast.bucket_of(partition_key)`,
    );
    expect(wrong).toEqual([]);
    expect(await count()).toBe(1_000);
  });
});
