/** What a queue may be asked about limits per key and turns, in TypeScript, SQL and on the command line; and explain. */
import { afterEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { explainJob } from '../../packages/holdfast/src/inspect/explain/explain.js';
import { reading } from '../../packages/holdfast/src/inspect/reading/reading.js';
import { call } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { claimInTurns } from '../support/turns.js';

const db = testDatabase();
const MAILS = { schema: 'holdfast', queue: 'mails' };
const step = job<{ n: number }>('step', { queue: 'mails' });

afterEach(async () => {
  await db.rows('DELETE FROM holdfast.workers');
  if ((await db.rows(`SELECT FROM holdfast.queues WHERE name = 'mails'`)).length === 0) return;
  await db.rows('TRUNCATE holdfast.mails, holdfast.mails_claims');
  await db.hf.dropQueue('mails');
});

const settings = async () =>
  (
    await db.rows(
      `SELECT ordering::text, per_key, per_group, fair, weights FROM holdfast.queues WHERE name = 'mails'`,
    )
  )[0];

const NOTHING = { ordering: 'none', per_key: null, per_group: null, fair: false, weights: {} };

describe('createQueue and configureQueue', () => {
  test('make a queue whose keys take turns, and change its limits while it holds jobs', async () => {
    await db.hf.createQueue('mails', { perKey: 2, perGroup: 20, fair: true, weights: { a: 3 } });
    expect(await settings()).toEqual({
      ...{ ordering: 'turns', per_key: 2, per_group: 20, fair: true, weights: { a: 3 } },
    });
    await db.hf.enqueue(step, { n: 1 });
    await db.hf.configureQueue('mails', { perGroup: null, weights: { b: 2 } });
    expect(await settings()).toMatchObject({ per_key: 2, per_group: null, weights: { b: 2 } });
    await db.hf.configureQueue('mails', { fair: false });
    expect(await settings()).toMatchObject({ per_key: 2, fair: false, weights: {} });
    const [queue] = (await db.hf.queues()).filter((one) => one.queue === 'mails');
    expect(queue).toMatchObject({ ordering: 'turns', perKey: 2, perGroup: null, fair: false });
    // How it is read can be changed only while it is empty.
    for (const change of [{ ordering: 'none' }, { ordering: 'key' }] as const)
      await expect(db.hf.configureQueue('mails', change)).rejects.toMatchObject({ code: 'HF005' });
    await db.rows('TRUNCATE holdfast.mails');
    await db.hf.configureQueue('mails', { ordering: 'none' });
    expect(await settings()).toEqual(NOTHING);
    await db.hf.enqueue(step, { n: 1 });
    await expect(db.hf.configureQueue('mails', { perKey: 2 })).rejects.toMatchObject({
      code: 'HF005',
    });
    expect(await settings()).toEqual(NOTHING);
  });

  test.each([
    [{ perKey: 0 }, /perKey must be a whole number from 1 to 10000, not 0/],
    [{ perKey: 1.5 }, /perKey must be a whole number from 1 to 10000, not 1\.5/],
    [{ perKey: '2' }, /perKey must be a whole number/],
    [{ perGroup: -1 }, /perGroup must be a whole number/],
    [{ perGroup: Number.NaN }, /perGroup must be a whole number/],
    [{ fair: 'yes' }, /fair must be true or false, not "yes"/],
    [{ fair: true, weights: [1] }, /weights must be an object/],
    [{ fair: true, weights: new Map([['a', 1]]) }, /weights must be an object/],
    [{ fair: true, weights: { a: 0 } }, /the weight of "a" must be a whole number from 1 to 1000/],
    [{ fair: true, weights: { a: -3 } }, /the weight of "a" must be a whole number .* not -3/],
    [{ fair: true, weights: { a: 0.5 } }, /the weight of "a" must be a whole number/],
    [{ fair: true, weights: { '': 1 } }, /"" in weights can be no partition key/],
    [{ perKey: 1, weights: { a: 2 } }, /weights .* need fair: true/],
    [{ weights: { a: 2 } }, /weights .* need fair: true/],
    [{ ordering: 'key', perKey: 2 }, /perKey is for a queue without ordering: 'key'/],
    [{ ordering: 'key', fair: true }, /fair is for a queue without ordering: 'key'/],
  ])('refuse %o', async (options, message) => {
    const refusal = { code: 'OPTION_INVALID', message: expect.stringMatching(message) };
    await expect(db.hf.createQueue('mails', options as object)).rejects.toMatchObject(refusal);
    expect(await settings()).toBeUndefined();
    await expect(db.hf.configureQueue('inbox', options as object)).rejects.toMatchObject(refusal);
  });

  test('refuse turns beside an order, and a queue of turns without any', async () => {
    await db.hf.createQueue('mails', { ordering: 'key' });
    await expect(db.hf.configureQueue('mails', { perKey: 2 })).rejects.toThrow(
      /runs one job of a key after the other, and perKey lets them run beside each other/,
    );
    await db.hf.configureQueue('mails', { ordering: 'none', perKey: 2 });
    expect(await settings()).toMatchObject({ ordering: 'turns', per_key: 2 });
    await expect(db.hf.configureQueue('mails', { perKey: null })).rejects.toThrow(
      /nothing would be left of perKey, perGroup and fair/,
    );
    expect(() => job('x', { perKey: 2 } as object)).toThrow(/perKey is a property of a queue/);
  });

  test('and SQL cannot set what they refuse', async () => {
    await db.hf.createQueue('mails', { perKey: 2 });
    for (const change of [
      'per_key = 0',
      'per_group = 10001',
      'per_key = NULL',
      `weights = '{"a": 2}'`,
      `fair = true, weights = '{"a": 0.5}'`,
      `fair = true, weights = '{"a": "2"}'`,
      `fair = true, weights = '[]'`,
      `ordering = 'key'`,
    ])
      await expect(
        db.rows(`UPDATE holdfast.queues SET ${change} WHERE name = 'mails'`),
        change,
      ).rejects.toMatchObject({ code: '23514' });
  });
});

test('the command line sets and shows it', async () => {
  const run = (...words: string[]) => call(words, { env: { DATABASE_URL: db.url } });
  expect((await run('queues', 'create', 'mails', '--per-key', '2', '--fair', 'on')).code).toBe(0);
  const set = await run('queues', 'set', 'mails', '--per-key', '3', '--weights', '{"a": 2}');
  expect(set.out).toMatch(/per key +3 \(was 2\)/);
  expect(set.out).toMatch(/weights +\{"a":2\} \(was none\)/);
  expect((await run('queues', 'set', 'mails', '--per-key', 'many')).err).toMatch(
    /--per-key must be a whole number or none/,
  );
  expect((await run('queues', 'set', 'mails', '--fair', 'yes')).err).toMatch(/on or off/);
  expect((await run('queues', 'set', 'mails', '--weights', '{a')).err).toMatch(/must be JSON/);
  const { out } = await run(
    ...['enqueue', 'step', '{"n": 1}', '--queue', 'mails', '--partition-key', 'k', '--group', 'g'],
  );
  expect((await run('jobs', 'show', out.trim())).out).toMatch(/group +g/);
});

test('explain says that a key or a group is full, and what comes before', async () => {
  await db.hf.createQueue('mails', { perKey: 2, perGroup: 3 });
  await db.rows(
    `INSERT INTO holdfast.workers (id, handles) VALUES ('w', '{"mails": {"step": 1}}')`,
  );
  const put = async (partitionKey: string) =>
    (await db.hf.enqueue(step, { n: 1 }, { partitionKey, group: 'g' })).id;
  const explain = (id: string) =>
    reading(db.pool, (reader) => explainJob(reader, 'holdfast', id, {}));
  const [first, , third, fourth] = [await put('a'), await put('a'), await put('a'), await put('a')];
  await claimInTurns(db.engine, 'w', { names: MAILS });
  expect(await explain(first)).toMatchObject({ code: 'running' });
  expect(await explain(third)).toMatchObject({
    code: 'key_full',
    text: expect.stringMatching(
      new RegExp(
        `^2 jobs of its key a are in the hands of workers, .* allows 2 at once \\(perKey\\)\\. The longest is job ${first}, on worker w `,
      ),
    ),
    fix: 'Wait, or allow more: holdfast queues set mails --per-key 3',
  });
  expect((await explain(fourth)).text).toContain('1 job that became due earlier wait');
  await put('b');
  await claimInTurns(db.engine, 'w', { names: MAILS });
  expect(await explain(await put('c'))).toMatchObject({
    code: 'group_full',
    text: expect.stringContaining('3 jobs of its group g are in the hands of workers'),
    also: [],
  });
  const { id } = await db.hf.enqueue(step, { n: 1 }, { partitionKey: 'other' });
  expect(await explain(id)).toMatchObject({
    code: 'waiting_its_turn',
    text: expect.stringContaining('it is the next of its key'),
  });
});
