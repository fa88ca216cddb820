import { afterEach, expect, test, vi } from 'vitest';
import { uuidv7 } from './uuid.js';

afterEach(() => {
  vi.restoreAllMocks();
  vi.doUnmock('node:crypto');
});

const FORM = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

function timeOf(uuid: string): number {
  return Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16);
}

function expectAscending(uuids: string[]): void {
  const wrong = uuids.findIndex((uuid, i) => i > 0 && uuid <= uuids[i - 1]!);
  expect(wrong).toBe(-1);
}

/** The function as a process has it whose random bytes are all the same. */
async function uuidv7WithRandom(byte: number): Promise<() => string> {
  vi.resetModules();
  vi.doMock('node:crypto', () => ({ randomFillSync: (bytes: Uint8Array) => bytes.fill(byte) }));
  return (await import('./uuid.js')).uuidv7;
}

test('100,000 identifiers in a row are well formed, distinct and strictly ascending', () => {
  const uuids = Array.from({ length: 100_000 }, uuidv7);
  expect(uuids.filter((uuid) => !FORM.test(uuid))).toEqual([]);
  expect(new Set(uuids).size).toBe(uuids.length);
  expectAscending(uuids);
});

test('an identifier holds the time at which it was made', () => {
  const before = Date.now();
  const uuid = uuidv7();
  expect(timeOf(uuid)).toBeGreaterThanOrEqual(before);
  // One more if the counter happened to be full.
  expect(timeOf(uuid)).toBeLessThanOrEqual(Date.now() + 1);
});

test('the parts that tell two processes apart in one millisecond are random', async () => {
  vi.resetModules();
  const other = await import('./uuid.js');
  const now = Date.now() + 10;
  vi.spyOn(Date, 'now').mockReturnValue(now);
  const [a, b] = [uuidv7(), other.uuidv7()];
  expect(timeOf(a)).toBe(timeOf(b));
  // Each differs, but for one chance in 67 million.
  expect(a.slice(15, 23)).not.toBe(b.slice(15, 23));
  expect(a.slice(24)).not.toBe(b.slice(24));
});

test('identifiers keep rising while the clock stands still or steps back', async () => {
  const fresh = await uuidv7WithRandom(0);
  const clock = vi.spyOn(Date, 'now').mockReturnValue(1_700_000_000_000);
  const uuids = Array.from({ length: 20_000 }, fresh);
  clock.mockReturnValue(1_699_999_000_000);
  uuids.push(...Array.from({ length: 20_000 }, fresh));
  clock.mockReturnValue(1_700_000_000_001);
  uuids.push(...Array.from({ length: 20_000 }, fresh));
  expect(timeOf(uuids[39_999]!)).toBe(1_700_000_000_000);
  expect(timeOf(uuids[59_999]!)).toBe(1_700_000_000_001);
  expectAscending(uuids);
});

test('identifiers keep rising when the counter of a millisecond is full', async () => {
  const fresh = await uuidv7WithRandom(0xff);
  vi.spyOn(Date, 'now').mockReturnValue(1_700_000_000_000);
  const uuids = [fresh(), fresh(), fresh()];
  expect(uuids[0]).toBe('018bcfe5-6800-7fff-bfff-ffffffffffff');
  expect(uuids[1]).toBe('018bcfe5-6801-7000-8000-ffffffffffff');
  expectAscending(uuids);
});
