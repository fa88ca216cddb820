/**
 * Jobs with payloads and handlers that do whatever they like: none is left stuck, the worker
 * lives on, and nothing escapes as an unhandled rejection. A run is repeated with FUZZ_SEED.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  Cancel,
  DeadLetter,
  type HandlerContext,
  HoldfastError,
  job,
  RetryLater,
  Snooze,
} from '../../packages/holdfast/src/index.js';
import { encodePayload } from '../../packages/holdfast/src/job/payload.js';
import { anyCharacter } from '../support/any-character.js';
import { testDatabase } from '../support/database.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const JOBS = long(1_000, 10_000);
const seed = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 31));
const db = testDatabase();
const start = testWorkers();

const escaped: unknown[] = [];
const listen = (reason: unknown) => void escaped.push(reason);
beforeAll(() => void process.on('unhandledRejection', listen));
afterAll(() => void process.off('unhandledRejection', listen));

const refuses = (): never => {
  throw new Error('a trap was sprung');
};

function revoked(target: object): object {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
}

function cyclic(): Error {
  const error = new Error('round') as Error & { self?: unknown; errors?: unknown };
  error.self = error;
  error.cause = error;
  error.errors = [error, error];
  return error;
}

const HUGE = '    at e\u0301\n'.repeat(100_000);

/** Whatever can be thrown. */
const THROWN: (() => unknown)[] = [
  () => 'a string',
  () => '',
  () => null,
  () => undefined,
  () => Symbol('s'),
  () => 10n ** 50n,
  () => Number.NaN,
  () => new Date(Number.NaN),
  () => () => refuses(),
  () => [],
  () => Object.create(null),
  () => revoked({}),
  () => revoked(new Error('x')),
  () => revoked(() => 1),
  () => new Proxy(new Error('x'), { get: refuses, getPrototypeOf: refuses, ownKeys: refuses }),
  () => new Proxy({}, { get: () => refuses, has: () => true }),
  cyclic,
  () => new AggregateError([cyclic(), null, revoked({}), 'x'], 'many'),
  () => new AggregateError(Array(100_000).fill(cyclic())),
  () => Object.defineProperty(new Error('x'), 'message', { get: refuses }),
  () => Object.defineProperty(new Error('x'), 'stack', { get: refuses }),
  () => Object.assign(new Error('x'), { name: 5, code: {}, cause: null, stack: 7 }),
  () => Object.assign(new Error('x'), { toString: refuses, toJSON: refuses, valueOf: refuses }),
  () => Object.freeze(new TypeError('frozen')),
  () => new Error('\0 and \ud800 and \udfff'),
  () => new Error(HUGE),
  () => Object.assign(new Error('deep'), { stack: `Error: deep\n${HUGE}` }),
  () => new HoldfastError('PAYLOAD_INVALID', 'forged'),
  () => new HoldfastError('STOPPED', 'forged'),
  () => new RetryLater(3),
  () => Object.assign(new RetryLater(0), { delayMs: 'soon' }),
  () => Object.assign(new RetryLater(0), { delayMs: -1e300 }),
  () => new DeadLetter('enough'),
  () => new Cancel('not wanted'),
  () => Object.assign(new Cancel('x'), { message: Symbol('s') }),
];

const thenable = (then: unknown) => Object.defineProperty({}, 'then', { value: then });

/** Whatever can be returned. */
const RETURNED: (() => unknown)[] = [
  () => undefined,
  () => null,
  () => 42,
  () => Symbol('s'),
  () => revoked({}),
  () => thenable('not a function'),
  () => thenable((resolve: () => void) => resolve()),
  () => thenable((_: unknown, reject: (reason: unknown) => void) => reject(undefined)),
  () =>
    thenable((resolve: () => void, reject: () => void) => {
      resolve();
      reject();
      refuses();
    }),
  () => Object.defineProperty({}, 'then', { get: refuses }),
  () => Promise.resolve(Promise.reject(null)),
];

type Context = HandlerContext<unknown>;
const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const snoozed = new Set<string>();

/** What a handler may do with its context, in ways that it should not. */
const DONE: ((ctx: Context) => unknown)[] = [
  (ctx) => ctx.once('effect', () => new Date()),
  (ctx) => ctx.once('effect', () => 10n),
  (ctx) => ctx.once('', () => 1),
  (ctx) => ctx.once('effect', () => Promise.reject(undefined)),
  (ctx) => ctx.once('effect', () => 'done'),
  (ctx) => ctx.transaction((tx) => tx.query('SELECT 1 / 0')),
  (ctx) => ctx.transaction(() => Promise.reject(null)),
  (ctx) => ctx.transaction((tx) => tx.query('SELECT 1')),
  async (ctx) => {
    await ctx.transaction((tx) => tx.query('SELECT 1'));
    throw revoked({});
  },
  (ctx) => ctx.complete({ query: () => Promise.reject(Symbol('no')) }),
  (ctx) => ctx.enqueue(job('nobody'), () => 1),
  (ctx) => ctx.enqueue(null as never, {}),
  (ctx) => {
    if (snoozed.has(ctx.id)) return 'awake';
    snoozed.add(ctx.id);
    throw new Snooze(2);
  },
  // Longer than the time limit, and then a rejection that nobody waits for any more.
  async () => {
    await later(60);
    throw new Error('late');
  },
];

type Behaviour = (ctx: Context) => unknown;
const TIMINGS: ((act: Behaviour) => Behaviour)[] = [
  (act) => (ctx) => act(ctx),
  (act) => async (ctx) => act(ctx),
  (act) => async (ctx) => {
    await null;
    return act(ctx);
  },
  (act) => async (ctx) => {
    await later(Math.random() * 5);
    return act(ctx);
  },
  // Well the first time, badly the second, or the other way round.
  (act) => (ctx) => (ctx.attempt === 1 ? act(ctx) : undefined),
  (act) => (ctx) => (ctx.attempt === 1 ? Promise.reject('first') : act(ctx)),
];

const throws = (make: () => unknown): Behaviour => {
  return () => {
    throw make();
  };
};

const behaviours = fc
  .tuple(
    fc.constantFrom(...TIMINGS),
    fc.oneof(
      { weight: 5, arbitrary: fc.constantFrom(...THROWN.map(throws)) },
      {
        weight: 3,
        arbitrary: fc.constantFrom(
          ...RETURNED.map(
            (make): Behaviour =>
              () =>
                make(),
          ),
        ),
      },
      { weight: 2, arbitrary: fc.constantFrom(...DONE) },
    ),
  )
  .map(([timing, act]) => timing(act));

/** What enqueue takes; that it refuses the rest is tested elsewhere. */
const storable = (payload: unknown) => {
  try {
    return encodePayload(payload, { maxBytes: 100_000, what: 'payload' }) !== '';
  } catch {
    return false;
  }
};
const payloads = fc
  .oneof(fc.jsonValue({ stringUnit: anyCharacter }), fc.jsonValue({ maxDepth: 8 }))
  .filter(storable);

// A few seconds; the limit is for many jobs and busy machines.
test(`${JOBS} fuzzed jobs all end, and the worker lives (seed ${seed})`, {
  timeout: 120_000,
}, async () => {
  const acts = fc.sample(behaviours, { seed, numRuns: JOBS });
  const given = fc.sample(payloads, { seed, numRuns: JOBS });
  const fuzz = job<unknown>('fuzz', {
    maxAttempts: 2,
    retry: () => Math.random() * 5,
    timeout: 40,
  });
  const plain = job('plain');
  const enqueued = await db.hf.enqueueMany(given.map((payload) => fuzz.item(payload)));
  const order = new Map(enqueued.map(({ id }, n) => [id, n]));
  const changed: number[] = [];

  const { events } = start(
    db.hf,
    (w) =>
      w
        .handle(fuzz, (ctx) => {
          const n = order.get(ctx.id) as number;
          if (!sameJson(ctx.payload, given[n])) changed.push(n);
          return acts[n]?.(ctx);
        })
        .handle(plain, () => undefined),
    { concurrency: 50 },
  );
  const left = async () =>
    Number(
      (await db.rows(`SELECT count(*) AS n FROM holdfast.inbox WHERE status <> 'dead_letter'`))[0]
        ?.n,
    );
  await until('no job is left', async () => (await left()) === 0, {
    timeoutMs: 100_000,
    everyMs: 200,
  });

  const ends = await db.rows<{ status: string; n: number }>(
    `SELECT status::text, count(*)::int AS n FROM (
       SELECT id, status FROM holdfast.inbox UNION ALL SELECT id, status FROM holdfast.inbox_archive
     ) AS job GROUP BY 1 ORDER BY 1`,
  );
  expect(ends.map(({ status }) => status)).toEqual(
    ['completed', 'cancelled', 'dead_letter'].sort(),
  );
  expect(ends.reduce((sum, { n }) => sum + n, 0)).toBe(JOBS);
  expect(changed, 'payloads that came out other than they went in').toEqual([]);
  const tooLong = await db.rows(
    `SELECT id FROM holdfast.inbox
     WHERE octet_length(last_error) > 8192 OR last_error IS NULL OR jsonb_array_length(history) > 20`,
  );
  expect(tooLong).toEqual([]);
  // Whatever a handler throws, the attempt is judged, and not put off for a minute.
  const unjudged = await db.rows(
    `SELECT id FROM holdfast.inbox WHERE concat(last_error, history) LIKE '%could not be evaluated%'`,
  );
  expect(unjudged).toEqual([]);
  // A transaction that commits while the time limit strikes has completed its job all the same.
  for (const event of events) {
    if (event.kind !== 'lost') continue;
    expect(await db.hf.job(event.id)).toMatchObject({ status: 'completed' });
  }

  const { id } = await db.hf.enqueue(plain, {});
  await until('the worker lives', async () => (await db.hf.job(id))?.status === 'completed');
  expect(escaped).toEqual([]);
});

/** jsonb keeps neither the order of names nor the sign of zero. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return Object.is(value, -0) ? 0 : value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, one]) => [name, sorted(one)]),
  );
}

function sameJson(a: unknown, b: unknown): boolean {
  return JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
}
