/** Whatever a handler throws, its job ends with a bounded, storable last_error and the worker goes on. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type JobDefinition,
  job,
  RetryLater,
  type Worker,
} from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';

const db = testDatabase();

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

const refuses = () => {
  throw new Error('a trap was sprung');
};

function cyclic(): Error {
  const error = new Error('round and round') as Error & { self?: unknown };
  error.self = error;
  error.cause = new AggregateError([error, error], 'inner', { cause: error });
  return error;
}

const THROWN: [string, () => unknown, RegExp][] = [
  ['a string', () => 'plain text', /plain text/],
  ['null', () => null, /null/],
  ['undefined', () => undefined, /undefined/],
  ['a symbol', () => Symbol('s'), /Symbol\(s\)/],
  ['a BigInt', () => 12n, /12/],
  ['NaN', () => Number.NaN, /NaN/],
  ['a function', () => () => 1, /function/],
  ['an object without a prototype', () => Object.create(null), /./],
  ['a revoked proxy', revoked, /./],
  [
    'a proxy whose prototype cannot be asked for',
    () => new Proxy({}, { getPrototypeOf: refuses }),
    /./,
  ],
  [
    'a proxy that refuses everything',
    () => new Proxy(new Error('x'), { get: refuses, has: refuses, getPrototypeOf: refuses }),
    /./,
  ],
  [
    'an error whose getters throw',
    () =>
      Object.defineProperties(new Error('x'), {
        message: { get: refuses },
        stack: { get: refuses },
        name: { get: refuses },
        cause: { get: refuses },
      }),
    /./,
  ],
  ['an error with cycles', cyclic, /round and round/],
  ['an error of 50 MB', () => new Error('A'.repeat(50_000_000)), /AAAA/],
  [
    'an error with a huge stack',
    () => Object.assign(new Error('deep'), { stack: `Error: deep\n${'    at x\n'.repeat(1e6)}` }),
    /deep/,
  ],
  ['NUL and half of a surrogate pair', () => new Error('a\0b\ud83dc'), /a.b.c/],
  [
    'a thousand causes',
    () =>
      Array.from({ length: 1_000 }).reduce(
        (cause, _, i) => new Error(`level ${i}`, { cause }),
        null as unknown,
      ),
    /level 999/,
  ],
  [
    'a RetryLater whose delay was set to nonsense',
    () => Object.assign(new RetryLater(0, 'rate limited'), { delayMs: Number.NaN }),
    /rate limited/,
  ],
  [
    'a RetryLater whose delay was set to a fraction',
    () => Object.assign(new RetryLater(0, 'rate limited'), { delayMs: 1.5 }),
    /rate limited/,
  ],
];

const thrown = THROWN.map((_, n) => job(`bad_${n}`, { maxAttempts: 1 }));
const good = job('good');
const rejects = job('rejects', { maxAttempts: 1 });
const wordy = job('wordy', { maxAttempts: 25, retry: () => 0 });

/** One for all that is thrown: it goes on. */
let worker: Worker;
let running: Promise<void>;
beforeAll(() => {
  worker = db.hf.worker({ handleSignals: false, poll: '10ms' });
  for (const [n, [, make]] of THROWN.entries()) {
    worker.handle(thrown[n] as JobDefinition<unknown, unknown>, () => {
      throw make();
    });
  }
  worker.handle(good, () => undefined);
  worker.handle(rejects, () => Promise.reject(undefined));
  worker.handle(wordy, () => {
    throw new Error('é'.repeat(100_000));
  });
  running = worker.run();
});
afterAll(async () => {
  await worker.stop();
  await running;
});

const deadLetter = (id: string) =>
  until('the job is a dead letter', async () => {
    const found = await db.hf.job(id);
    return found?.status === 'dead_letter' ? found : null;
  });

test.each(THROWN)('%s', async (name, _, expected) => {
  const bad = thrown[THROWN.findIndex(([one]) => one === name)];
  const { id } = await db.hf.enqueue(bad as JobDefinition<unknown, unknown>, {});
  const row = await deadLetter(id);
  expect(row.lastError).toMatch(expected);
  expect(Buffer.byteLength(row.lastError!)).toBeLessThanOrEqual(8_192);
  expect(Buffer.byteLength(JSON.stringify(row.history))).toBeLessThan(2_000);
  const { completed } = worker.stats;
  await db.hf.enqueue(good, {});
  await until('the worker runs the next job', () => worker.stats.completed === completed + 1);
});

test('what a rejected promise carries is treated alike', async () => {
  const { id } = await db.hf.enqueue(rejects, {});
  expect((await deadLetter(id)).lastError).toContain('undefined');
});

test('the history of 20 failures with long messages stays small', async () => {
  const { id } = await db.hf.enqueue(wordy, {});
  const { history } = await deadLetter(id);
  expect(history).toHaveLength(20);
  expect(Buffer.byteLength(JSON.stringify(history))).toBeLessThan(20_000);
});
