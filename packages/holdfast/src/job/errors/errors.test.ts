import { expect, test, vi } from 'vitest';
import { Cancel, DeadLetter, HoldfastError, RetryLater, Snooze } from './errors.js';
import { shown } from './holdfast-error.js';

test('a HoldfastError carries its code, its cause and its own name, also in the stack', () => {
  const cause = new Error('connection reset');
  const error = new HoldfastError('LEASE_LOST', 'the lease is gone', { cause });
  expect(error).toBeInstanceOf(Error);
  expect(error).toMatchObject({ code: 'LEASE_LOST', name: 'HoldfastError', cause });
  expect(error.stack).toMatch(/^HoldfastError: the lease is gone\n/);
});

test('an error without a cause does not pretend to have one', () => {
  expect('cause' in new HoldfastError('STOPPED', 'stopped')).toBe(false);
});

test('the outcomes that a handler throws have names, reasons, delays and causes', () => {
  const cause = new Error('429');
  expect(new RetryLater('90s', 'rate limited', { cause })).toMatchObject({
    name: 'RetryLater',
    message: 'rate limited',
    delayMs: 90_000,
    cause,
  });
  expect(new Snooze(1500)).toMatchObject({ name: 'Snooze', delayMs: 1500 });
  expect(new DeadLetter('no such user', { cause })).toMatchObject({
    name: 'DeadLetter',
    message: 'no such user',
    cause,
  });
  expect(new Cancel('order withdrawn')).toMatchObject({
    name: 'Cancel',
    message: 'order withdrawn',
  });
});

test('a delay beyond ten years is ten years', () => {
  expect(new RetryLater('99999d').delayMs).toBe(3650 * 86_400_000);
  expect(new Snooze('99999d').delayMs).toBe(3650 * 86_400_000);
});

test('an outcome with a nonsensical delay says so where it is made', () => {
  // @ts-expect-error it is no duration
  expect(() => new RetryLater('soon')).toThrow(/the delay of RetryLater .* got "soon"/);
  expect(() => new Snooze(-1)).toThrow(/the delay of Snooze .* got -1/);
});

test('a message quotes what it was given briefly, without running its code', () => {
  const hostile = new Proxy(
    {},
    {
      get() {
        throw new Error('trap');
      },
    },
  );
  expect(shown(hostile)).toBe('an object');
  expect(shown('x'.repeat(10_000)).length).toBeLessThan(70);
  expect(shown(12n)).toBe('the BigInt 12n');
  expect(shown(1n << 1_000_000n)).toBe('a huge BigInt');
});

test('the classes of another copy of the package are known, and nothing else is', async () => {
  vi.resetModules();
  const other = await import('./errors.js');
  expect(other.DeadLetter).not.toBe(DeadLetter);
  expect(new other.DeadLetter('no such user')).toBeInstanceOf(DeadLetter);
  expect(new other.Snooze('1h')).toBeInstanceOf(Snooze);
  expect(new other.RetryLater('1h')).toBeInstanceOf(RetryLater);
  expect(new other.Cancel('withdrawn')).toBeInstanceOf(Cancel);
  expect(new other.HoldfastError('STOPPED', 'stopped')).toBeInstanceOf(HoldfastError);
  expect(new other.Snooze('1h')).not.toBeInstanceOf(DeadLetter);
  for (const value of [new Error('plain'), null, undefined, 'DeadLetter', { name: 'DeadLetter' }]) {
    expect(value instanceof DeadLetter).toBe(false);
  }
});

test('a subclass of yours is one of its parents, and its parents are not it', () => {
  class NoSuchUser extends DeadLetter {}
  expect(new NoSuchUser('gone')).toBeInstanceOf(DeadLetter);
  expect(new NoSuchUser('gone')).toBeInstanceOf(NoSuchUser);
  expect(new DeadLetter('gone')).not.toBeInstanceOf(NoSuchUser);
});
