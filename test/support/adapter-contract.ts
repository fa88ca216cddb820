/**
 * What every adapter owes to a caller's transaction, as tests that are run once per library.
 *
 * The library writes an order by its own means and Holdfast enqueues through the adapter, both in one
 * transaction of that library; what was written is then read back over a connection that has nothing to
 * do with either. The payloads and keys hold what drivers, query builders and array literals trip over.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import {
  type EnqueueItem,
  HoldfastError,
  job,
  type Queryable,
} from '../../packages/holdfast/src/index.js';
import type { TestGround } from './database.js';

export interface TransactionLibrary {
  /** One transaction: what `work` throws rolls it back and is thrown on. */
  transaction(
    work: (tx: Queryable, placeOrder: (id: number) => PromiseLike<unknown>) => Promise<void>,
  ): Promise<unknown>;
  close(): Promise<unknown>;
}

const AWKWARD = `it's "so" \\ \\\\ \\n \n\t ? ?? \\? $1 $12 :id \${x} {a,b} {} NULL %s ; -- /* 🦀 日本 é \u2028`;
const JSON_LOOKING = '{"a":[1,"two",null]}';

const anything = job<unknown>('anything');
const plain = anything.item({
  text: AWKWARD,
  json: JSON_LOOKING,
  nested: [[], {}, [null, { a: 1 }]],
});
const keyed = anything.item(
  { [AWKWARD]: { [JSON_LOOKING]: [true, 1.5e-7, '', 'NULL', '2026-01-01T00:00:00Z'] } },
  { partitionKey: AWKWARD, idempotencyKey: AWKWARD, headers: { trace: AWKWARD } },
);
const bulk = [
  keyed,
  anything.item(JSON_LOOKING, { partitionKey: JSON_LOOKING, idempotencyKey: JSON_LOOKING }),
  anything.item([AWKWARD, ['NULL', null]], { partitionKey: 'NULL', idempotencyKey: 'NULL' }),
];
const unique = anything.item(
  { [AWKWARD]: JSON_LOOKING },
  { unique: { key: AWKWARD, onConflict: 'replace' }, headers: { trace: AWKWARD } },
);
const withoutKeys = [plain, anything.item(null), anything.item('42')];

const CASES: [string, EnqueueItem[]][] = [
  ['a job without an idempotency key', [plain]],
  ['a job with an idempotency key', [keyed]],
  ['three jobs with idempotency keys', bulk],
  ['three jobs without idempotency keys', withoutKeys],
  ['jobs with and without idempotency keys', [...withoutKeys, ...bulk]],
  ['a job with a unique key', [unique]],
  ['jobs with and without unique keys', [...withoutKeys, unique]],
];
const isKeyed = (item: EnqueueItem) => item.options.idempotencyKey !== undefined;
const SOME_KEYED = CASES.filter(([, items]) => items.some(isKeyed));
const ALL_KEYED = CASES.filter(([, items]) => items.every(isKeyed));

/** The items with another payload in the last of them. */
const spoilt = (items: EnqueueItem[], payload: unknown) =>
  items.map((item, index) => (index === items.length - 1 ? { ...item, payload } : item));

const kindOf = (payload: unknown) =>
  payload === null ? 'null' : Array.isArray(payload) ? 'array' : typeof payload;

export function adapterContract(db: TestGround, open: (url: string) => TransactionLibrary): void {
  let library: TransactionLibrary;
  beforeAll(async () => {
    await db.rows('DROP TABLE IF EXISTS orders');
    await db.rows('CREATE TABLE orders (id integer PRIMARY KEY)');
    library = open(db.url);
  });
  beforeEach(() =>
    db.rows(
      'TRUNCATE orders, holdfast.inbox, holdfast.inbox_idempotency, holdfast.inbox_unique, holdfast.audit',
    ),
  );
  afterAll(() => library?.close());

  function send(tx: Queryable, items: EnqueueItem[]) {
    const [only] = items;
    if (items.length > 1 || !only) return db.hf.enqueueMany(items, { tx });
    const call = { ...only.options, tx };
    return db.hf.enqueue(anything, only.payload, call).then((enqueued) => [enqueued]);
  }

  const orders = async () =>
    (await db.rows('SELECT id FROM orders ORDER BY id')).map(({ id }) => id);
  const heldKeys = async () =>
    (await db.rows('SELECT key FROM holdfast.inbox_idempotency')).map(({ key }) => key).sort();
  const jobs = () =>
    db.rows(`
      SELECT i.id, i.payload, jsonb_typeof(i.payload) AS kind, i.partition_key, i.headers,
        i.idempotency_key, i.xmin IN (SELECT o.xmin FROM orders AS o) AS of_the_order
      FROM holdfast.inbox AS i ORDER BY i.position`);

  async function refusal(tx: Queryable, items: EnqueueItem[]): Promise<string> {
    const error = await send(tx, items).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(HoldfastError);
    return (error as HoldfastError).code;
  }

  test('jobs are changed, retried, discarded and cancelled with the order, or not at all', async () => {
    const { hf } = db;
    const add = async () => (await hf.enqueue(anything, 1, { delay: '1h', priority: 2 })).id;
    const ids = await Promise.all([add(), add(), add(), add()]);
    const [changed, gone, again, dropped] = ids as [string, string, string, string];
    await db.rows(
      `UPDATE holdfast.inbox SET status = 'dead_letter', available_at = 'infinity', parked = true
       WHERE id = ANY ($1)`,
      [[again, dropped]],
    );
    const states = async () =>
      (await Promise.all(ids.map((id) => hf.job(id)))).map((one) => one?.status);
    const before = ['pending', 'pending', 'dead_letter', 'dead_letter'];
    const work = async (tx: Queryable, placeOrder: (id: number) => PromiseLike<unknown>) => {
      await placeOrder(1);
      const payload = { [AWKWARD]: JSON_LOOKING };
      await hf.update(changed, { payload, delay: '2h', priority: 1 }, { tx, reason: AWKWARD });
      expect(await hf.cancel([gone], { tx, reason: AWKWARD })).toEqual([gone]);
      await expect(hf.update(gone, { priority: 1 }, { tx })).rejects.toMatchObject({
        code: 'JOB_STATE',
        message: expect.stringContaining('is cancelled'),
      });
      expect(await hf.retry([again], { tx })).toEqual([again]);
      expect(await hf.discard([dropped], { tx })).toEqual([dropped]);
      // Nobody else sees any of it yet.
      expect(await states()).toEqual(before);
    };
    const undone = library.transaction(async (tx, placeOrder) => {
      await work(tx, placeOrder);
      throw new Error('rolled back');
    });
    await expect(undone).rejects.toThrow('rolled back');
    expect(await states()).toEqual(before);
    expect((await hf.audit()).acts).toEqual([]);
    await library.transaction(work);
    expect(await states()).toEqual(['pending', 'cancelled', 'pending', 'discarded']);
    expect(await hf.job(changed)).toMatchObject({
      priority: 1,
      payload: { [AWKWARD]: JSON_LOOKING },
    });
    expect((await hf.audit()).acts.map(({ act, jobs }) => [act, jobs])).toEqual([
      ...[['discard', 1] as const, ['retry', 1], ['cancel', 1], ['update', 1]],
    ]);
  });

  test.for(CASES)('%s: committed with the order, exactly as given', async ([, items]) => {
    let ids: string[] = [];
    await library.transaction(async (tx, placeOrder) => {
      await placeOrder(1);
      const enqueued = await send(tx, items);
      expect(enqueued.map(({ deduplicated }) => deduplicated)).toEqual(items.map(() => false));
      ids = enqueued.map(({ id }) => id);
      expect(await jobs()).toEqual([]);
    });
    expect(await orders()).toEqual([1]);
    expect(await jobs()).toEqual(
      items.map(({ payload, options }, index) => ({
        id: ids[index],
        payload,
        kind: kindOf(payload),
        partition_key: options.partitionKey ?? ids[index],
        headers: options.headers ?? null,
        idempotency_key: options.idempotencyKey ?? null,
        of_the_order: true,
      })),
    );
  });

  test.for(CASES)('%s: rolled back with the order', async ([, items]) => {
    const outcome = library.transaction(async (tx, placeOrder) => {
      await placeOrder(1);
      await send(tx, items);
      throw new Error('the business says no');
    });
    await expect(outcome).rejects.toThrow('the business says no');
    expect([await orders(), await jobs(), await heldKeys()]).toEqual([[], [], []]);
  });

  test.for(CASES)('%s: a bad payload leaves the transaction usable', async ([, items]) => {
    await library.transaction(async (tx, placeOrder) => {
      await placeOrder(1);
      expect(await refusal(tx, spoilt(items, { amount: 10n }))).toBe('PAYLOAD_NOT_JSON');
      await placeOrder(2);
    });
    expect([await orders(), await jobs(), await heldKeys()]).toEqual([[1, 2], [], []]);
  });

  test.for(SOME_KEYED)('%s: a mismatch leaves the transaction usable', async ([, items]) => {
    const { id } = await db.hf.enqueue(anything, 'other', items.at(-1)?.options);
    await library.transaction(async (tx, placeOrder) => {
      await placeOrder(1);
      expect(await refusal(tx, items)).toBe('IDEMPOTENCY_MISMATCH');
      await placeOrder(2);
    });
    expect(await orders()).toEqual([1, 2]);
    expect(await db.rows('SELECT id, payload FROM holdfast.inbox')).toEqual([
      { id, payload: 'other' },
    ]);
    expect(await heldKeys()).toEqual([items.at(-1)?.options.idempotencyKey]);
  });

  test.for(ALL_KEYED)('%s: a repeat gets the same ids', async ([, items]) => {
    const outcomes: object[] = [];
    const enqueueAgain = async (tx: Queryable) => void outcomes.push(...(await send(tx, items)));
    await library.transaction(async (tx) => {
      await enqueueAgain(tx);
      await enqueueAgain(tx);
    });
    await library.transaction(enqueueAgain);
    const stored = await jobs();
    expect(stored).toHaveLength(items.length);
    expect(outcomes).toEqual(
      [false, true, true].flatMap((deduplicated) => stored.map(({ id }) => ({ id, deduplicated }))),
    );
  });

  test('parameters may stand in any order, more than once and beside question marks', async () => {
    const found: unknown[] = [];
    await library.transaction(async (tx) => {
      const text = `SELECT $2::text AS b, $1::text AS a, $2::text AS again, '? ??' AS marks,
        '{"a":1}'::jsonb ? $1::text AS has`;
      const result = await tx.query(text, ['a', AWKWARD]);
      found.push(...(Array.isArray(result) ? result : result.rows));
    });
    expect(found).toEqual([{ b: AWKWARD, a: 'a', again: AWKWARD, marks: '? ??', has: true }]);
  });
}
