/** Many dead letters at once: all of them, in batches, with progress, and safely interrupted. */
import { beforeEach, describe, expect, test } from 'vitest';
import { inBatches } from '../../packages/holdfast/src/operate/bulk.js';
import { clearAll } from '../support/cli-plant.js';
import { call, inTerminal, start, values } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';

const db = testDatabase();
beforeEach(() => clearAll(db));

const addDeadLetters = (count: number) =>
  db.rows(
    `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, status, available_at,
       attempts, last_error, parked)
     SELECT 'noop', 'order:' || n, n % 1024, '{}', 'dead_letter', 'infinity', 5,
       CASE WHEN n % 10 = 0 THEN 'Error: rare' ELSE 'Error: usual' END, false
     FROM generate_series(1, $1::int) AS n`,
    [count],
  );
const countOf = async (status: string) => {
  const [row] = await db.rows<{ n: number }>(
    'SELECT count(*)::int AS n FROM holdfast.inbox WHERE status = $1::holdfast.inbox_status',
    [status],
  );
  return row?.n as number;
};
const env = () => ({ DATABASE_URL: db.url });

/** Many batches. */
const MANY = long(8_000, 100_000);

test(`${MANY} dead letters are retried with one command`, async () => {
  await addDeadLetters(MANY);
  const ran = await call(['dead-letters', 'retry', '--all', '--yes', '--json'], { env: env() });
  expect(ran.code).toBe(0);
  expect(values(ran.out)).toEqual([{ matched: MANY, retried: MANY, finished: true }]);
  expect(await countOf('pending')).toBe(MANY);
});

test('interrupted, it ends after its batch and says what is left; again, it goes on', async () => {
  await addDeadLetters(6_000);
  const running = start(['dead-letters', 'retry', '--all', '--yes', '--batch', '10'], {
    env: env(),
  });
  await until('some are retried', async () => (await countOf('pending')) > 0);
  running.child.kill('SIGINT');
  const ran = await running.ended;
  expect(ran.code).toBe(130);
  const moved = await countOf('pending');
  expect(moved).toBeGreaterThan(0);
  expect(moved).toBeLessThan(6_000);
  expect(moved % 10).toBe(0);
  expect(ran.out).toBe(`${moved.toLocaleString('en')} retried\n`);
  expect(ran.err).toContain(
    `${(6_000 - moved).toLocaleString('en')} dead letters are left as they were`,
  );
  const again = await call(['dead-letters', 'retry', '--all', '--yes'], { env: env() });
  expect(again).toMatchObject({
    code: 0,
    out: `${(6_000 - moved).toLocaleString('en')} retried\n`,
  });
  expect(await countOf('dead_letter')).toBe(0);
});

test('when the database goes away in the middle, it says how many were done', async () => {
  await addDeadLetters(6_000);
  const running = start(['dead-letters', 'retry', '--all', '--yes', '--json', '--batch', '10'], {
    env: env(),
  });
  await until('some are retried', async () => (await countOf('pending')) > 0);
  // A connection that is lost between two batches is simply replaced; so until it meets one.
  const cut = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'holdfast cli' AND state = 'active'`;
  const cutAgain = async () => {
    await db.rows(cut);
    return running.child.exitCode !== null;
  };
  await until('it ends', cutAgain, { everyMs: 1 });
  const ran = await running.ended;
  expect(ran.code).toBe(1);
  const [told] = values<{ retried: number; finished: boolean }>(ran.out);
  expect(told).toMatchObject({ matched: 6_000, finished: false });
  // The batch that was under way may have been committed.
  expect([0, 10]).toContain((await countOf('pending')) - (told?.retried as number));
  expect(ran.err).toContain(`At least ${told?.retried.toLocaleString('en')} were retried`);
  expect(ran.err).not.toContain('Nothing was done');
});

test('killed in the middle, every job is either as it was or done', async () => {
  await addDeadLetters(6_000);
  const running = start(['dead-letters', 'discard', '--all', '--yes', '--batch', '10'], {
    env: env(),
  });
  await until('some are discarded', async () => (await countOf('dead_letter')) < 6_000);
  running.child.kill('SIGKILL');
  await running.ended;
  const archived = await db.rows<{ n: number }>(
    'SELECT count(*)::int AS n FROM holdfast.inbox_archive',
  );
  expect((await countOf('dead_letter')) + (archived[0]?.n as number)).toBe(6_000);
});

test('a filter takes only what it names', async () => {
  await addDeadLetters(2_000);
  const ran = await call(['dead-letters', 'discard', '--error', 'rare', '--yes'], { env: env() });
  expect(ran.out).toBe('200 discarded\n');
  expect(await countOf('dead_letter')).toBe(1_800);
});

test('on a terminal a bar is drawn over itself, and is gone at the end', async () => {
  await addDeadLetters(1_000);
  const ran = await inTerminal(['dead-letters', 'retry', '--all', '--yes', '--batch', '20'], env());
  expect(ran.code).toBe(0);
  const [first, ...drawn] = ran.out.split('\r\u001b[K');
  expect(first).toBe('');
  expect(drawn.pop()).toBe('1,000 retried\r\n');
  for (const bar of drawn.filter((one) => one.startsWith('['))) {
    expect(bar).toMatch(/^\[#*-*\] [\d,]+ of 1,000 \(\d+ %\), [\d,]+\/s, .* left$/);
  }
  expect(drawn.some((one) => one.startsWith('['))).toBe(true);
});

describe('batches', () => {
  test('what had changed meanwhile is counted as found and not as moved', async () => {
    const pages = [
      { ids: ['a', 'b'], next: 'b' },
      { ids: [], next: 'm' },
      { ids: ['n'], next: null },
    ];
    const asked: (string | null)[] = [];
    const steps = inBatches({
      find: async (after) => {
        asked.push(after);
        return pages.shift() as { ids: string[]; next: string | null };
      },
      act: async (ids) => ids.slice(1),
    });
    const seen = [];
    for await (const step of steps) seen.push(step);
    expect(asked).toEqual([null, 'b', 'm']);
    expect(seen.map((step) => step.finished)).toEqual([false, false, true]);
    expect(seen.at(-1)).toMatchObject({ found: 3, moved: 1 });
  });
});
