/** Long lives: hiccups, new versions, restarts, retries and the archive, on one worker. */
import { expect, test } from 'vitest';
import { workflow } from '../../packages/holdfast/src/index.js';
import { type Run, testRuns } from '../support/runs.js';
import { until } from '../support/until.js';
import { gate } from '../support/workers.js';

const runs = testRuns({}, async ({ hf, url }) => {
  await hf.createQueue('keyed', { ordering: 'key' });
  return url;
});
const { db } = runs;

const seen = new Map<string, number>();
const count = (id: string) => {
  seen.set(id, (seen.get(id) ?? 0) + 1);
  return seen.get(id) as number;
};
const hiccups = runs.workflow(
  'hiccups',
  async (flow, progress: boolean) => {
    const turn = count(flow.id);
    for (let n = 1; n <= 6; n++) {
      if (progress || n === 1)
        await flow.step(`step ${n}`, () => n, { undo: () => count('undone') });
      if (turn === n && (n < 6 || !progress)) throw new Error(`hiccup ${n}`);
    }
    return turn;
  },
  { maxAttempts: 2 },
);

test('five hiccups with progress between do not kill a run; two in a row do, and it undoes', async () => {
  expect(await runs.ran(hiccups, true)).toMatchObject({ status: 'completed', result: 6 });
  const { status, error } = await runs.ran(hiccups, false);
  expect(status).toBe('dead_letter');
  expect(error).toContain('hiccup 2 (undone: "step 1"; not undone: none)');
  expect(seen.get('undone')).toBe(1);
});

const bodies = (n: number) => async () => `body ${n}`;
const versioned = runs.workflow('versioned', { 1: bodies(1), 3: bodies(3) } as never, {
  version: 3,
});

test('a run keeps the version it began with; one that nobody has a body for waits', async () => {
  const [one, two, three] = await Promise.all(
    [1, 2, 3].map(async (version) => {
      const of = workflow('versioned', { version }) as Run;
      return (await db.hf.enqueue(of, null)).id;
    }),
  );
  expect((await runs.end(versioned, one as string)).result).toBe('body 1');
  expect((await runs.end(versioned, three as string)).result).toBe('body 3');
  const [row] = await db.rows('SELECT status, attempts FROM holdfast.inbox WHERE id = $1', [two]);
  expect(row).toEqual({ status: 'pending', attempts: 0 });
});

const months: string[] = [];
const subscription = runs.workflow('subscription', async (flow, month: number) => {
  await flow.step('charge', ({ key }) => void months.push(key.slice(flow.id.length)));
  const news = await flow.wait('news', 'news');
  if (month < 3) await flow.restart(month + 1);
  return { month, news };
});

test('a restart begins anew in place, under new keys, and drops no signal and takes none twice', async () => {
  const id = await runs.start(subscription, 1);
  const send = (n: number) => db.hf.signal(subscription, id, 'news', n, { key: `news ${n}` });
  expect([await send(1), await send(2)]).toEqual([true, true]);
  await runs.asleep(id, 'news');
  // A sender that does not know whether it was sent sends it again.
  expect([await send(1), await send(2), await send(3)]).toEqual([false, false, true]);
  expect((await runs.end(subscription, id)).result).toEqual({ month: 3, news: 3 });
  expect(months).toEqual(['/charge', '/charge/1', '/charge/2']);
});

const open = gate();
const order: string[] = [];
const keyed = runs.workflow(
  'keyed',
  async (flow, name: string) => {
    order.push(name);
    if (name === 'first') await flow.wait('go', 'go');
    order.push(`${name} ended`);
    if (name === 'other') open.open();
  },
  { queue: 'keyed' },
);

test('a waiting run in a queue that is read by key holds its key', async () => {
  const start = async (name: string, partitionKey: string) =>
    (await db.hf.enqueue(keyed, name, { partitionKey })).id;
  const first = await start('first', 'a');
  const second = await start('second', 'a');
  await start('other', 'b');
  await open.opened;
  await until('the first one waits', async () =>
    (await runs.names(first)).includes('wait go waiting'),
  );
  await db.hf.signal(keyed, first, 'go');
  await runs.end(keyed, second);
  expect(order.filter((one) => !one.startsWith('other'))).toEqual([
    ...['first', 'first', 'first ended', 'second', 'second ended'],
  ]);
});

let pays = 0;
const resumes = runs.workflow('resumes', async (flow) => {
  const paid = await flow.step('charge', () => ++pays);
  const taken = await flow.wait('approval', 'approved');
  await flow.step(
    'ship',
    () => {
      if (taken !== 'yes') throw new Error('no');
    },
    { maxAttempts: 1 },
  );
  return { paid, taken };
});

test('a run is retried from a step on: what came before stays, and signals are taken again', async () => {
  const id = await runs.start(resumes);
  await db.hf.signal(resumes, id, 'approved', 'no');
  expect((await runs.end(resumes, id)).status).toBe('dead_letter');
  await expect(db.hf.retry([id], { from: 'shop' })).rejects.toThrow(
    /no step "shop".*charge, approval/,
  );
  await expect(db.hf.retry([id], { from: 5 as never })).rejects.toThrow(
    'from must be the name of a step; nothing was retried',
  );
  await db.rows(`UPDATE holdfast.inbox_signals SET value = '"yes"' WHERE run_id = $1`, [id]);
  await db.hf.retry([id], { from: 'approval' });
  expect((await runs.end(resumes, id)).result).toEqual({ paid: 1, taken: 'yes' });
  expect(pays).toBe(1);
});

test('a run that comes back from the archive goes on where it was, however old it is', async () => {
  pays = 0;
  const id = await runs.start(resumes);
  await runs.asleep(id);
  await db.rows(
    "UPDATE holdfast.inbox_steps SET check_at = now() - interval '1 year' WHERE run_id = $1 AND check_at IS NOT NULL",
    [id],
  );
  await db.hf.cancel([id]);
  const { rows } = await db.pool.query<{ kept: boolean }>(
    "SELECT check_at > now() - interval '1 day' AS kept FROM holdfast.inbox_steps WHERE run_id = $1 AND check_at IS NOT NULL",
    [id],
  );
  expect(rows).toEqual([{ kept: true }]);
  const approval = async () =>
    (await db.hf.steps(id)).steps.find(({ name }) => name === 'approval')?.state;
  expect(await approval()).toBe('dropped');
  await db.hf.archive.replay([id]);
  await runs.asleep(id);
  expect(await approval()).toBe('waiting');
  await db.hf.signal(resumes, id, 'approved', 'yes');
  expect((await runs.end(resumes, id)).result).toEqual({ paid: 1, taken: 'yes' });
});

const MANY = 10_000;
const long = runs.workflow('long', async (flow) => {
  await flow.wait('go', 'go');
  for (let n = 2; n < MANY; n++) await flow.step(`step ${n}`, () => n);
  return flow.step('last', () => 'done');
});

test('10,000 steps are fine, and the log warns of them', async () => {
  const id = await runs.start(long);
  await runs.asleep(id);
  await db.rows(
    `INSERT INTO holdfast.inbox_steps (run_id, place, nth, kind, name, value)
     SELECT $1, n, n, 's', 'step ' || n, to_jsonb(n) FROM generate_series(2, $2::int - 1) AS n`,
    [id, MANY],
  );
  await db.rows(
    `UPDATE holdfast.inbox_steps SET place = 1, value = '{"name":"go"}' WHERE run_id = $1 AND name = 'go'`,
    [id],
  );
  await db.rows('SELECT holdfast.wake_run($1, $2)', ['inbox', id]);
  expect((await runs.end(long, id)).result).toBe('done');
  expect(runs.log.lines.filter(({ message }) => message?.includes('many steps'))).toHaveLength(1);
});
