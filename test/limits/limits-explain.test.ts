/** What explain says of jobs that wait for a limit. */
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { numbers } from '../support/claiming.js';
import { testDatabase } from '../support/database.js';
import { claimStep, limitStep, register } from '../support/limited.js';

const db = testDatabase();
const step = job<{ n: number }>('step');

beforeEach(async () => {
  for (const table of ['limits', 'permits', 'rates', 'inbox', 'inbox_claims'])
    await db.rows(`DELETE FROM holdfast.${table}`);
});

const enqueue = (count: number) =>
  db.hf.enqueueMany(Array.from({ length: count }, (_, n) => step.item({ n })));
/** As if so much time had passed. */
const pass = (ms: number) =>
  db.rows(`UPDATE holdfast.rates SET started_tat = started_tat - $1 * interval '1 ms'`, [ms]);
const taken = async (options = {}) => numbers(await claimStep(db, 'w', options));

describe('explain', () => {
  /** A worker that is free and handles both types. */
  beforeEach(async () => {
    await db.rows('DELETE FROM holdfast.workers');
    await register(db, ['w']);
  });

  test('says that no permit is free, and how many there are', async () => {
    await limitStep(db, { concurrency: 2 });
    const [, , third] = await enqueue(3);
    await taken();
    expect(await db.hf.explain(third?.id as string)).toMatchObject({
      code: 'limit_reached',
      text: 'It waits for a free permit: 2 of 2 permits for "step" jobs are taken in the whole fleet.',
      fix: expect.stringContaining('holdfast limits set step --concurrency '),
    });
  });

  test('says when the next job starts, and why not now', async () => {
    await limitStep(db, { rate: { limit: 60, perMs: 3_600_000, burst: 1 } });
    const [, second] = await enqueue(2);
    await taken();
    expect(await db.hf.explain(second?.id as string)).toMatchObject({
      code: 'rate_limited',
      text: expect.stringMatching(
        /^It is due and comes next, at \S+ \d\d:\d\d:\d\dZ \(in (59 s|1 min)\): at most 60 "step" jobs start in 1 h, in the whole fleet\.$/,
      ),
    });
    await pass(3_600_000);
    await enqueue(1);
    await taken({ limit: 1 });
    const rows = await db.rows<{ id: string }>(
      `SELECT id FROM holdfast.inbox WHERE status = 'pending'`,
    );
    expect(await db.hf.explain(rows[0]?.id as string)).toMatchObject({ code: 'rate_limited' });
  });

  test('names the rate of its type where its queue has one too', async () => {
    await db.hf.configureQueue('inbox', { limit: { rate: { limit: 30, per: '1h' } } });
    onTestFinished(() => db.hf.configureQueue('inbox', { limit: null }));
    await limitStep(db, { rate: { limit: 60, perMs: 3_600_000, burst: 1 } });
    const [, second] = await enqueue(2);
    await taken();
    expect(await db.hf.explain(second?.id as string)).toMatchObject({
      code: 'rate_limited',
      text: expect.stringContaining('at most 60 "step" jobs start in 1 h'),
      fix: expect.stringContaining('holdfast limits set step --rate'),
    });
  });

  test('says how many are ahead of a job, and about when it starts', async () => {
    await limitStep(db, { rate: { limit: 60, perMs: 3_600_000, burst: 1 } });
    await enqueue(3);
    await taken();
    // No worker has come by since.
    const [late] = await enqueue(1);
    expect(await db.hf.explain(late?.id as string)).toMatchObject({
      code: 'rate_limited',
      text: expect.stringMatching(
        /^It is due; 2 jobs of its type are ahead of it, so it may start at about \S+ \d\d:\d\d:\d\dZ \(in (2 min 59 s|3 min)\)/,
      ),
    });
  });

  test('does not speak of limits that do not hold the job up', async () => {
    await limitStep(db, { concurrency: 2 });
    const id = (await enqueue(1))[0]?.id as string;
    expect((await db.hf.explain(id)).code).toBe('waiting_its_turn');
  });
});
