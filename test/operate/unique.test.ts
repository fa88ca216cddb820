/** Uniqueness and folding: one job for a key, decided by the rows, whoever enqueues and claims at the same moment. */
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type EnqueueItem, job, type UniqueOptions } from '../../packages/holdfast/src/index.js';
import { bucketOf } from '../../packages/holdfast/src/job/key.js';
import { pruneChunk, pruneUnique } from '../../packages/holdfast/src/maintenance/prune.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { fail } from '../../packages/holdfast/src/settle/fail.js';
import { release } from '../../packages/holdfast/src/settle/release.js';
import { claimByTime, heldOf, numbers } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { claimInOrder } from '../support/ordered.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const step = job<{ n: number }>('step');
const inLine = job<{ n: number }>('step', { queue: 'lines' });
const ME = 'worker-me';

beforeAll(() => db.hf.createQueue('lines', { ordering: 'key' }));
beforeEach(async () => {
  for (const queue of ['inbox', 'lines'])
    for (const side of ['', '_archive', '_claims', '_unique'])
      await db.rows(`DELETE FROM holdfast.${queue}${side}`);
});

type Terms = Omit<UniqueOptions, 'key'>;
const under = (key: string, terms: Terms) => ({ key, ...terms }) as UniqueOptions;
const enqueue = (n: number, terms: Terms = {}, options: object = {}) =>
  db.hf.enqueue(step, { n }, { unique: under('k', terms), ...options });
const claimed = async () => (await claimByTime(db.engine, ME)).jobs;
const rows = () =>
  db.rows<{ id: string; n: number; status: string }>(
    `SELECT id, (payload ->> 'n')::int AS n, status FROM holdfast.inbox ORDER BY position`,
  );
const keyRows = () => db.rows('SELECT key, jobs FROM holdfast.inbox_unique ORDER BY key');

/** Ways to bring the first job of a key into a state. */
const STATES = {
  waiting: async () => undefined,
  running: async () => void (await claimed()),
  retrying: async () => {
    const why = { delayMs: 60_000, error: 'x', summary: 'x' };
    const jobs = (await claimed()).map((one) => ({ ...heldOf(one), ...why }));
    await fail(db.engine, INBOX, ME, jobs);
  },
  released: async () => void (await release(db.engine, INBOX, ME, (await claimed()).map(heldOf))),
  completed: async () => void (await complete(db.engine, INBOX, ME, (await claimed()).map(heldOf))),
  dead: async () => {
    const jobs = (await claimed()).map((one) => ({ ...heldOf(one), error: 'x', summary: 'x' }));
    await deadLetter(db.engine, INBOX, ME, jobs);
  },
} as const;

/** What the next enqueue comes to. + a new job, = the one that stands, ~ the one that stands, replaced. */
const TABLE: [Terms, Record<keyof typeof STATES, '+' | '=' | '~'>][] = [
  [{}, { waiting: '=', running: '+', retrying: '+', released: '+', completed: '+', dead: '+' }],
  [
    { while: 'pending', onConflict: 'replace' },
    { waiting: '~', running: '+', retrying: '+', released: '+', completed: '+', dead: '+' },
  ],
  [
    { while: 'pending', onConflict: 'later' },
    { waiting: '=', running: '+', retrying: '+', released: '+', completed: '+', dead: '+' },
  ],
  [
    { while: 'running' },
    { waiting: '=', running: '=', retrying: '=', released: '=', completed: '+', dead: '+' },
  ],
  [
    { while: 'running', onConflict: 'replace' },
    { waiting: '~', running: '+', retrying: '+', released: '+', completed: '+', dead: '+' },
  ],
  [
    { while: 'running', onConflict: 'later' },
    { waiting: '=', running: '+', retrying: '+', released: '+', completed: '+', dead: '+' },
  ],
  [
    { while: 'kept' },
    { waiting: '=', running: '=', retrying: '=', released: '=', completed: '=', dead: '=' },
  ],
];

describe('while a job stands', () => {
  const cases = TABLE.flatMap(([terms, wanted]) =>
    Object.entries(wanted).map(([state, outcome]) => ({
      ...{ name: `${JSON.stringify(terms)}, ${state}`, terms, outcome },
      state: state as keyof typeof STATES,
    })),
  );
  test.each(cases)('$name: $outcome', async ({ terms, state, outcome }) => {
    const first = await enqueue(1, terms);
    expect(first).toEqual({ id: first.id, deduplicated: false });
    await STATES[state]();
    const second = await enqueue(2, terms);
    if (outcome === '+') {
      expect(second).toMatchObject({ deduplicated: false });
      expect(second.id).not.toBe(first.id);
    } else if (outcome === '=') {
      expect(second).toEqual({ id: first.id, deduplicated: true });
    } else {
      expect(second).toEqual({ id: first.id, deduplicated: true, replaced: true });
      expect(await rows()).toEqual([{ id: first.id, n: 2, status: 'pending' }]);
    }
  });

  test('at most one waits behind the one that runs, which is the one that is found', async () => {
    for (const terms of [
      { while: 'running', onConflict: 'later' },
      { onConflict: 'replace' },
    ] as const) {
      await db.rows('DELETE FROM holdfast.inbox');
      await enqueue(1, terms);
      await claimed();
      const { id } = await enqueue(2, terms);
      expect(await enqueue(3, terms)).toMatchObject({ id, deduplicated: true });
      expect((await rows()).map(({ status }) => status)).toEqual(['processing', 'pending']);
      // Whoever asks whether any of them has not ended, finds both.
      expect(await enqueue(4, { while: 'running' })).toMatchObject({ id });
      await complete(db.engine, INBOX, ME, (await claimed()).map(heldOf));
      expect(await enqueue(5, { while: 'running' })).toMatchObject({ deduplicated: true });
    }
  });

  test('another key, another type and another queue are another matter', async () => {
    await enqueue(1);
    const others = [
      db.hf.enqueue(step, { n: 2 }, { unique: { key: 'l' } }),
      db.hf.enqueue(job<{ n: number }>('other'), { n: 3 }, { unique: { key: 'k' } }),
      db.hf.enqueue(inLine, { n: 4 }, { unique: { key: 'k' } }),
      db.hf.enqueue(step, { n: 5 }),
    ];
    for (const one of await Promise.all(others)) expect(one.deduplicated).toBe(false);
  });
});

test('a group is carried where keys take turns, and a replacement keeps its place', async () => {
  const queue = 'shared';
  await db.hf.createQueue(queue, { perGroup: 1 });
  const unique = { key: 'k', onConflict: 'replace' } as const;
  const place = () =>
    db.rows('SELECT id, group_key, partition_key, partition_bucket AS bucket FROM holdfast.shared');
  const { id } = await db.hf.enqueue(
    job<{ n: number }>('step', { queue }),
    { n: 1 },
    { unique, partitionKey: 'a', group: 'g' },
  );
  const stands = [{ id, group_key: 'g', partition_key: 'a', bucket: bucketOf('g') }];
  expect(await place()).toEqual(stands);
  // In SQL, with another group: the job stays in the line in which it stands.
  const again = await db.rows(
    `SELECT * FROM holdfast.shared_enqueue('step', '{"n": 2}', partition_key => 'a', unique_key => 'k',
       on_conflict => 'replace', group_key => 'h')`,
  );
  expect(again).toEqual([{ id, deduplicated: true }]);
  expect(await place()).toEqual(stands);
  const [row] = await db.rows(
    `SELECT * FROM holdfast.shared_enqueue('step', '{"n": 3}', unique_key => 'other', group_key => 'h')`,
  );
  expect((await place()).find((one) => one.id === row?.id)).toMatchObject({
    ...{ group_key: 'h', bucket: bucketOf('h') },
  });
});

describe('a replacement', () => {
  test('is everything that the enqueue says; its id, its key and its place stay', async () => {
    const stored = async (id: string) =>
      (
        await db.rows<Record<string, unknown> & { available_at: Date }>(
          'SELECT * FROM holdfast.inbox WHERE id = $1',
          [id],
        )
      )[0]!;
    const { id } = await enqueue(1, {}, { partitionKey: 'a', priority: 4, delay: '1h' });
    const was = await stored(id);
    const definition = job<{ n: number }>('step', { version: 2, maxAttempts: 9 });
    await db.hf.enqueue(
      definition,
      { n: 2 },
      {
        ...{ unique: { key: 'k', onConflict: 'replace' }, priority: 1, partitionKey: 'b' },
        headers: { a: 'b' },
      },
    );
    const is = await stored(id);
    expect(is).toMatchObject({
      ...{ id, payload: { n: 2 }, priority: 1, version: 2, max_attempts: 9, headers: { a: 'b' } },
      ...{ status: 'pending', lease_generation: '0', partition_key: 'a' },
      ...{ position: was.position, created_at: was.created_at },
      partition_bucket: was.partition_bucket,
    });
    expect(is.available_at.getTime()).toBeLessThan(was.available_at.getTime());
    expect(await rows()).toHaveLength(1);
  });

  test('with a delay is a debounce: the job moves, and a worker runs the last payload once', async () => {
    const ran: number[] = [];
    start(db.hf, (worker) => worker.handle(step, ({ payload }) => void ran.push(payload.n)));
    const debounce = { onConflict: 'replace' } as const;
    const { id } = await enqueue(1, debounce, { delay: '1h' });
    const due = async () => (await db.hf.job(id))!.runAt!.getTime();
    const first = await due();
    await enqueue(2, debounce, { delay: '2h' });
    expect(await due()).toBeGreaterThan(first + 3_000_000);
    await enqueue(3, debounce);
    expect(await db.hf.wait(id)).toMatchObject({ status: 'completed' });
    expect(ran).toEqual([3]);
  });

  test('in a queue that is read by key keeps its place in the line', async () => {
    const unique = { key: 'k', onConflict: 'replace' } as const;
    await db.hf.enqueue(inLine, { n: 1 }, { partitionKey: 'a', unique });
    await db.hf.enqueue(inLine, { n: 2 }, { partitionKey: 'a' });
    await db.hf.enqueue(inLine, { n: 3 }, { partitionKey: 'a', unique });
    const names = { schema: 'holdfast', queue: 'lines' };
    expect(numbers(await claimInOrder(db.engine, ME, { names }))).toEqual([3, 2]);
  });
});

test('a throttle: the first of a window is a job, and the next one when the window is over', async () => {
  const throttle = { while: 'kept', window: '1m' } as const;
  const first = await enqueue(1, throttle);
  await STATES.completed();
  expect(await enqueue(2, throttle)).toEqual({ id: first.id, deduplicated: true });
  await db.rows(`UPDATE holdfast.inbox_unique SET kept_until = kept_until - interval '61 s'`);
  const next = await enqueue(3, throttle);
  expect(next.deduplicated).toBe(false);
  // Until it has ended it stands, however long that takes.
  await db.rows(`UPDATE holdfast.inbox_unique SET kept_until = kept_until - interval '61 s'`);
  expect(await enqueue(4, throttle)).toEqual({ id: next.id, deduplicated: true });
});

describe('many at once', () => {
  const clients: pg.Client[] = [];
  const PRODUCERS = 50;
  beforeAll(async () => {
    for (let n = 0; n < PRODUCERS; n++) {
      const client = new pg.Client({ connectionString: db.url });
      await client.connect();
      clients.push(client);
    }
  });
  afterAll(() => Promise.all(clients.map((client) => client.end())));

  /** Each in a transaction of its own, on a connection of its own, all at the same time. */
  const race = (terms: Terms) =>
    Promise.all(
      clients.map(async (client, n) => {
        await client.query('BEGIN');
        const one = await db.hf.enqueue(step, { n }, { tx: client, unique: under('k', terms) });
        await client.query('COMMIT');
        return one;
      }),
    );

  test.each(TABLE.map(([terms]) => terms))('50 producers make one job: %j', async (terms) => {
    const all = await race(terms);
    const [row, ...more] = await rows();
    expect(more).toEqual([]);
    expect(new Set(all.map(({ id }) => id))).toEqual(new Set([row?.id]));
    expect(all.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
  });

  test('50 producers beside one that runs: at most one waits behind it', async () => {
    for (const terms of [
      { onConflict: 'replace' },
      { while: 'running', onConflict: 'later' },
    ] as const) {
      await db.rows('DELETE FROM holdfast.inbox');
      await enqueue(-1, terms);
      await claimed();
      await race(terms);
      expect((await rows()).map(({ status }) => status)).toEqual(['processing', 'pending']);
    }
  });

  test('no replacement is lost to a claim: what was said last is run, and nothing out of its order', async () => {
    const LAST = 300;
    const ran: number[] = [];
    let over = false;
    const claimer = async () => {
      while (!over || (await rows()).some(({ status }) => status === 'pending')) {
        const { jobs } = await claimByTime(db.engine, ME);
        ran.push(...numbers({ jobs }));
        await complete(db.engine, INBOX, ME, jobs.map(heldOf));
      }
    };
    const claims = claimer();
    for (let n = 1; n <= LAST; n++) await enqueue(n, { onConflict: 'replace' });
    over = true;
    await claims;
    expect(ran.at(-1)).toBe(LAST);
    expect(ran).toEqual([...ran].sort((a, b) => a - b));
    expect(new Set(ran).size).toBe(ran.length);
  });

  test('bulk calls over the same keys in opposite orders do not deadlock', async () => {
    const keys = Array.from({ length: 20 }, (_, n) => `k${n}`);
    const call = (order: readonly string[]) =>
      db.hf.enqueueMany(
        order.map((key, n) => step.item({ n }, { unique: { key, onConflict: 'replace' } })),
      );
    await Promise.all(Array.from({ length: 20 }, (_, n) => call(n % 2 ? keys : keys.toReversed())));
    expect(await rows()).toHaveLength(keys.length);
  });
});

describe('in a transaction of the caller', () => {
  test('a rollback takes it back, also a replacement', async () => {
    const client = await db.pool.connect();
    await client.query('BEGIN');
    await enqueue(1, {}, { tx: client });
    await client.query('ROLLBACK');
    expect([await rows(), await keyRows()]).toEqual([[], []]);
    const { id } = await enqueue(1);
    await client.query('BEGIN');
    await enqueue(2, { onConflict: 'replace' }, { tx: client });
    await client.query('ROLLBACK');
    client.release();
    expect(await rows()).toEqual([{ id, n: 1, status: 'pending' }]);
  });

  test.each(['ignore', 'replace'] as const)(
    '%s: the job that waits starts after the commit, so it sees what the transaction wrote',
    async (onConflict) => {
      const { id } = await enqueue(1);
      const client = await db.pool.connect();
      await client.query('BEGIN');
      await enqueue(2, { onConflict }, { tx: client });
      expect(await claimed()).toEqual([]);
      await client.query('COMMIT');
      client.release();
      expect((await claimed()).map((one) => one.id)).toEqual([id]);
    },
  );

  test('a job that runs is not waited for, even if its row is locked', async () => {
    await enqueue(1);
    await claimed();
    const client = await db.pool.connect();
    await client.query('BEGIN; SELECT FROM holdfast.inbox FOR UPDATE');
    for (const terms of [{ onConflict: 'replace' }, { while: 'running' }, {}] as const)
      await enqueue(2, terms);
    await client.query('ROLLBACK');
    client.release();
    expect(await rows()).toHaveLength(2);
  });
});

describe('in bulk', () => {
  const items = (onConflict: 'ignore' | 'replace' | 'later') =>
    [1, 2, 3].map((n) => step.item({ n }, { unique: { key: 'k', onConflict } }));

  test('the same key twice in one call: the first stands for the next, in their order', async () => {
    for (const onConflict of ['ignore', 'later'] as const) {
      const [first, ...others] = await db.hf.enqueueMany(items(onConflict));
      expect(others.map(({ id, deduplicated }) => [id, deduplicated])).toEqual([
        [first?.id, true],
        [first?.id, true],
      ]);
      expect((await rows()).map(({ n }) => n)).toEqual([1]);
      await db.rows('DELETE FROM holdfast.inbox');
    }
    const all = await db.hf.enqueueMany(items('replace'));
    expect(all.map(({ replaced }) => replaced)).toEqual([undefined, true, true]);
    expect((await rows()).map(({ n }) => n)).toEqual([3]);
  });

  test('beside jobs with and without idempotency keys, answers are in the order of the items', async () => {
    const standing = await enqueue(0);
    const all = await db.hf.enqueueMany([
      step.item({ n: 1 }, { unique: { key: 'k' } }),
      step.item({ n: 2 }),
      step.item({ n: 3 }, { idempotencyKey: 'i' }),
      step.item({ n: 4 }, { unique: { key: 'l' } }),
    ]);
    const stored = await db.rows<{ id: string; n: number }>(
      `SELECT id, (payload ->> 'n')::int AS n FROM holdfast.inbox`,
    );
    const numberOf = (id: string) => stored.find((row) => row.id === id)?.n;
    expect(all.map(({ id }) => numberOf(id))).toEqual([0, 2, 3, 4]);
    expect(all[0]).toEqual({ id: standing.id, deduplicated: true });
    await db.rows('DELETE FROM holdfast.inbox_idempotency');
  });

  test('positions are in the order of the items, whatever order their keys have', async () => {
    const keys = ['k10', 'k9', 'a'];
    const call = keys.map((key, n) =>
      inLine.item({ n }, { partitionKey: 'account:7', unique: { key } }),
    );
    await db.hf.enqueueMany(call);
    const line = await db.rows<{ n: number }>(
      `SELECT (payload ->> 'n')::int AS n FROM holdfast.lines ORDER BY position`,
    );
    expect(line.map(({ n }) => n)).toEqual([0, 1, 2]);
  });

  test('one that is refused leaves nothing behind', async () => {
    await db.hf.enqueue(step, { n: 0 }, { idempotencyKey: 'i' });
    const call = db.hf.enqueueMany([
      step.item({ n: 1 }, { unique: { key: 'k' } }),
      step.item({ n: 2 }, { idempotencyKey: 'i' }),
    ]);
    await expect(call).rejects.toMatchObject({ code: 'IDEMPOTENCY_MISMATCH' });
    expect([await rows(), await keyRows()]).toMatchObject([[{ n: 0 }], []]);
    await db.rows('DELETE FROM holdfast.inbox_idempotency');
  });
});

describe('the definition', () => {
  const sync = job<{ user: number; n: number }>('step', {
    unique: { by: ({ user }) => `user:${user}`, onConflict: 'replace' },
  });

  test('has a default, which an enqueue may change or leave out', async () => {
    const { id } = await db.hf.enqueue(sync, { user: 1, n: 1 });
    expect(await db.hf.enqueue(sync, { user: 1, n: 2 })).toEqual({
      ...{ id, deduplicated: true, replaced: true },
    });
    expect(await db.hf.enqueue(sync, { user: 2, n: 3 })).toMatchObject({ deduplicated: false });
    const own = { unique: { key: 'user:1', onConflict: 'ignore' } } as const;
    expect(await db.hf.enqueue(sync, { user: 1, n: 4 }, own)).toEqual({ id, deduplicated: true });
    const none = await db.hf.enqueue(sync, { user: 1, n: 5 }, { unique: false });
    expect(none.deduplicated).toBe(false);
    expect((await rows()).map(({ n }) => n)).toEqual([2, 3, 5]);
  });

  test('holds for items that were made by hand, and so do their own options', async () => {
    const byHand = (n: number, options: EnqueueItem['options'] = {}): EnqueueItem => ({
      ...{ job: sync as EnqueueItem['job'], payload: { user: 1, n }, options },
    });
    await db.hf.enqueueMany([byHand(1)]);
    expect(await db.hf.enqueueMany([byHand(2)])).toMatchObject([{ replaced: true }]);
    const own = { unique: { key: 'own', onConflict: 'ignore' } } as const;
    expect(await db.hf.enqueueMany([byHand(3, own), byHand(4, own)])).toMatchObject([
      { deduplicated: false },
      { deduplicated: true },
    ]);
  });

  test('has terms that an undefined one of an enqueue leaves as they are', async () => {
    const one = job<{ n: number }>('step', { unique: { by: () => 'k', while: 'running' } });
    await db.hf.enqueue(one, { n: 1 });
    await claimed();
    const unique = { key: 'k', while: undefined as never };
    expect(await db.hf.enqueue(one, { n: 2 }, { unique })).toMatchObject({ deduplicated: true });
  });

  test('holds for children too, in the transaction that completes their parent', async () => {
    const ran: number[] = [];
    const child = job<{ n: number }>('child', {
      unique: { by: () => 'one', onConflict: 'replace' },
    });
    const { id: standing } = await db.hf.enqueue(child, { n: 0 }, { delay: '1h' });
    start(db.hf, (worker) =>
      worker
        .handle(step, async (ctx) => void (await ctx.enqueue(child, ctx.payload)))
        .handle(child, ({ payload }) => void ran.push(payload.n)),
    );
    await db.hf.enqueue(step, { n: 7 });
    await db.hf.wait(standing);
    expect(ran).toEqual([7]);
  });

  test('is refused where it makes no sense', () => {
    const wrong: [unknown, RegExp][] = [
      [{}, /unique\.by/],
      [{ by: 'user' }, /unique\.by/],
      [{ by: () => 'k', while: 'ever' }, /unique\.while must be one of pending, running, kept/],
      [{ by: () => 'k', onConflict: 'x' }, /unique\.onConflict/],
      [
        { by: () => 'k', while: 'kept', onConflict: 'replace' },
        /what has ended cannot be replaced/,
      ],
      [{ by: () => 'k', window: '1m' }, /unique\.window goes with while "kept"/],
      [{ by: () => 'k', key: 'k' }, /has no option/],
      ['k', /must be an object/],
    ];
    for (const [unique, message] of wrong)
      expect(() => job('step', { unique: unique as never })).toThrow(message);
  });
});

describe('an enqueue is refused, and nothing is written,', () => {
  const wrong: [unknown, string][] = [
    [{}, 'KEY_INVALID'],
    [{ key: '' }, 'KEY_INVALID'],
    [{ key: 7 }, 'KEY_INVALID'],
    [{ key: 'x'.repeat(513) }, 'KEY_INVALID'],
    [{ key: 'a\0b' }, 'KEY_INVALID'],
    [{ key: 'k', while: 'ever' }, 'OPTION_INVALID'],
    [{ key: 'k', onConflict: 'maybe' }, 'OPTION_INVALID'],
    [{ key: 'k', while: 'kept', onConflict: 'later' }, 'OPTION_INVALID'],
    [{ key: 'k', while: 'kept', window: 0 }, 'OPTION_INVALID'],
    [{ key: 'k', while: 'kept', window: '3651d' }, 'OPTION_INVALID'],
    [{ key: 'k', window: '1m' }, 'OPTION_INVALID'],
    [{ key: 'k', by: () => 'k' }, 'OPTION_INVALID'],
    ['k', 'OPTION_INVALID'],
    [null, 'OPTION_INVALID'],
    [true, 'OPTION_INVALID'],
  ];
  test.each(wrong)('unique: %j', async (unique, code) => {
    const call = async () => db.hf.enqueue(step, { n: 1 }, { unique: unique as never });
    await expect(call()).rejects.toMatchObject({
      code,
      message: expect.stringMatching(/othing was enqueued/),
    });
    expect(await rows()).toEqual([]);
  });

  test('beside an idempotency key, or by a function that throws', async () => {
    const both = enqueue(1, {}, { idempotencyKey: 'i' });
    await expect(both).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/both given/),
    });
    const broken = job<{ n: number }>('step', {
      unique: {
        by: () => {
          throw new Error('no such user');
        },
      },
    });
    const call = async () => db.hf.enqueue(broken, { n: 1 });
    await expect(call()).rejects.toMatchObject({
      ...{
        code: 'OPTION_INVALID',
        message: expect.stringMatching(/unique\.by/),
        cause: new Error('no such user'),
      },
    });
    expect(await rows()).toEqual([]);
  });
});

describe('in SQL', () => {
  const call = async (args: string) =>
    (
      await db.rows<{ id: string; deduplicated: boolean }>(
        `SELECT id, deduplicated FROM holdfast.inbox_enqueue('step', ${args})`,
      )
    )[0]!;

  test('the function folds with enqueue, both ways', async () => {
    const first = await call(`'{"n": 1}', unique_key => 'k', delay => '1 hour'`);
    expect(first.deduplicated).toBe(false);
    expect(await enqueue(2)).toEqual({ id: first.id, deduplicated: true });
    const replace = `unique_key => 'k', on_conflict => 'replace'`;
    expect(await call(`'{"n": 3}', ${replace}`)).toEqual({ id: first.id, deduplicated: true });
    expect(await rows()).toEqual([{ id: first.id, n: 3, status: 'pending' }]);
    const kept = `unique_key => 'w', unique_while => 'kept', unique_window => '1 minute'`;
    await call(`'{"n": 4}', ${kept}`);
    expect((await call(`'{"n": 5}', ${kept}`)).deduplicated).toBe(true);
  });

  test.each([
    `unique_key => ''`,
    `unique_key => repeat('x', 513)`,
    `unique_key => 'k', unique_while => 'ever'`,
    `unique_key => 'k', unique_while => NULL`,
    `unique_key => 'k', on_conflict => 'maybe'`,
    `unique_key => 'k', unique_while => 'kept', on_conflict => 'replace'`,
    `unique_key => 'k', unique_window => '1 minute'`,
    `unique_key => 'k', unique_while => 'kept', unique_window => '0'`,
    `unique_key => 'k', idempotency_key => 'i'`,
  ])('refused: %s', async (args) => {
    await expect(call(`'{"n": 1}', ${args}`)).rejects.toMatchObject({
      ...{ code: 'HF002', message: expect.stringMatching(/nothing was enqueued/) },
    });
    expect(await rows()).toEqual([]);
  });
});

describe('what people do to such jobs', () => {
  test('a dead letter that is retried stands for its key again, unless another one has it by now', async () => {
    const first = await enqueue(1, { while: 'running' });
    await STATES.dead();
    await db.hf.retry([first.id]);
    expect(await enqueue(2, { while: 'running' })).toEqual({ id: first.id, deduplicated: true });
    // It was claimed before, so it is not one that waits to be claimed for the first time.
    await STATES.dead();
    const second = await enqueue(3, { while: 'running' });
    await db.hf.retry([first.id]);
    expect(await enqueue(4, { while: 'running' })).toEqual({ id: second.id, deduplicated: true });
    expect((await rows()).map(({ n }) => n).sort()).toEqual([1, 3]);
  });

  test('discarded and cancelled it stands no more; kept, it does', async () => {
    const first = await enqueue(1, { while: 'running' });
    await db.hf.cancel([first.id]);
    const second = await enqueue(2, { while: 'running' });
    expect(second.deduplicated).toBe(false);
    await STATES.dead();
    await db.hf.discard([second.id]);
    const third = await enqueue(3, { while: 'kept' });
    expect(third.deduplicated).toBe(false);
    await db.hf.cancel([third.id]);
    expect(await enqueue(4, { while: 'kept' })).toEqual({ id: third.id, deduplicated: true });
  });

  const replay = (...ids: string[]) => db.hf.archive.replay(ids, { completed: true });
  /** As if maintenance had come by long after the job ended. */
  const pruned = () => db.rows('DELETE FROM holdfast.inbox_unique');

  test.each(['at once', 'when its key is long gone'])(
    'replayed %s it stands again',
    async (when) => {
      const first = await enqueue(1, { while: 'running' });
      await STATES.completed();
      if (when !== 'at once') await pruned();
      await replay(first.id);
      expect(await enqueue(2, { while: 'running' })).toEqual({ id: first.id, deduplicated: true });
      // And again: the key is not lost on the way.
      await STATES.completed();
      await pruned();
      await replay(first.id);
      expect(await enqueue(3, { while: 'running' })).toEqual({ id: first.id, deduplicated: true });
    },
  );

  test('replayed it leaves the key to another one, and comes back beside it', async () => {
    const first = await enqueue(1, { while: 'running' });
    await STATES.completed();
    const second = await enqueue(2, { while: 'running' });
    await replay(first.id);
    expect(await enqueue(3, { while: 'running' })).toEqual({ id: second.id, deduplicated: true });
    expect((await rows()).map(({ n }) => n).sort()).toEqual([1, 2]);
    // Nor does it take a key that is kept for one that has ended.
    await STATES.completed();
    const kept = await enqueue(4, { while: 'kept' });
    await STATES.completed();
    await replay(first.id);
    await STATES.completed();
    expect(await enqueue(5, { while: 'kept' })).toEqual({ id: kept.id, deduplicated: true });
  });

  test('of several that are replayed under one key the last stands', async () => {
    const first = await enqueue(1, { while: 'running' });
    await STATES.completed();
    const last = await enqueue(2, { while: 'running' });
    await STATES.completed();
    await pruned();
    await replay(last.id, first.id);
    expect(await rows()).toHaveLength(2);
    expect(await enqueue(3, { while: 'running' })).toEqual({ id: last.id, deduplicated: true });
    expect(await keyRows()).toEqual([{ key: 'k', jobs: [last.id] }]);
  });

  test('a replacement keeps its key, and so does a dead letter that is restored and retried', async () => {
    const { id } = await enqueue(1, { onConflict: 'replace' });
    expect(await enqueue(2, { onConflict: 'replace' })).toMatchObject({ id, replaced: true });
    await STATES.dead();
    await db.hf.discard([id]);
    await pruned();
    await db.hf.archive.replay([id], { asDeadLetters: true });
    expect(await rows()).toMatchObject([{ id, status: 'dead_letter' }]);
    await db.hf.retry([id]);
    expect(await enqueue(3, { while: 'running' })).toEqual({ id, deduplicated: true });
  });

  test('a replay beside an enqueue under the key that has not committed: one of them has it', async () => {
    const first = await enqueue(1, { while: 'running' });
    await STATES.completed();
    await pruned();
    const client = new pg.Client({ connectionString: db.url });
    await client.connect();
    try {
      await client.query('BEGIN');
      const second = await enqueue(2, { while: 'running' }, { tx: client });
      const back = replay(first.id);
      await until('the replay waits for the key', async () => {
        const [row] = await db.rows<{ n: number }>(
          `SELECT count(*)::int AS n FROM pg_stat_activity
           WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        );
        return row?.n === 1;
      });
      await client.query('COMMIT');
      await back;
      expect(await enqueue(3, { while: 'running' })).toEqual({ id: second.id, deduplicated: true });
    } finally {
      await client.end();
    }
  });

  test('a job without a unique key pays nothing for the column, in the queue and in the archive', async () => {
    await db.hf.enqueue(step, { n: 1 });
    const sizes = async (table: string) => {
      const [{ columns } = { columns: '' }] = await db.rows<{ columns: string }>(
        `SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) AS columns FROM pg_attribute
         WHERE attrelid = 'holdfast.${table}'::regclass AND attnum > 0 AND attname <> 'unique_key'`,
      );
      return db.rows<{ with: number; without: number }>(
        `SELECT pg_column_size(a) AS with, pg_column_size(b) AS without
         FROM holdfast.${table} AS a CROSS JOIN (SELECT ${columns} FROM holdfast.${table}) AS b`,
      );
    };
    const [waiting] = await sizes('inbox');
    expect(waiting?.with).toBe(waiting?.without);
    await STATES.completed();
    const [finished] = await sizes('inbox_archive');
    expect(finished?.with).toBe(finished?.without);
  });
});

test('maintenance prunes keys that stand for nothing, and looks at the others later', async () => {
  const named = (key: string, terms: Terms = {}) =>
    db.hf.enqueue(step, { n: 1 }, { unique: under(key, terms) });
  await named('done');
  await named('kept', { while: 'kept' });
  await STATES.completed();
  await named('waits');
  const age = () => db.rows(`UPDATE holdfast.inbox_unique SET prune_at = now() - interval '1 s'`);
  expect(await pruneChunk(db.engine, INBOX, pruneUnique, 100, null)).toMatchObject({ pruned: 0 });
  await age();
  expect(await pruneChunk(db.engine, INBOX, pruneUnique, 100, null)).toMatchObject({ pruned: 1 });
  expect((await keyRows()).map(({ key }) => key)).toEqual(['kept', 'waits']);
  // Nothing is read again at once.
  expect(await db.rows('SELECT FROM holdfast.inbox_unique WHERE prune_at <= now()')).toEqual([]);
  await db.rows(`UPDATE holdfast.inbox_unique SET kept_until = now() - interval '1 s'`);
  await age();
  expect(await pruneChunk(db.engine, INBOX, pruneUnique, 100, null)).toMatchObject({ pruned: 1 });
  await until('only what waits is left', async () => (await keyRows()).length === 1);
});
