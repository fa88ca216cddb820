/** The back office: its jobs keep their limits, and its report finds it when they do not. */
import { beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../../test/support/database.js';
import { until } from '../../../../test/support/until.js';
import { testWorkers } from '../../../../test/support/workers.js';
import { handleOffice, officeJobsOf, officeReport } from './office.js';
import { openShop } from './shop.js';

const db = testDatabase();
const start = testWorkers();

beforeEach(async () => {
  await openShop(db.pool, db.hf);
  await db.rows('TRUNCATE shop.office');
});

const note = (type: string, began: number, ended: number, key: string | null = null) =>
  db.rows(
    `INSERT INTO shop.office (job_id, type, key, began, ended)
     VALUES (gen_random_uuid(), $1, $2, to_timestamp($3::float8), to_timestamp($4::float8))`,
    [type, key, began, ended],
  );

test('its handlers do their jobs, some folded and some in batches, within the limits', async () => {
  const orders = Array.from({ length: 40 }, (_, n) => n + 1);
  for (const list of officeJobsOf(orders)) await db.hf.enqueueMany(list);
  const call = async () => undefined;
  start(db.hf, (one) => {
    handleOffice(one, { pool: db.pool, call });
    return one;
  });
  // Of the products 0 to 4; ten messages to the partner, of which five may go at once.
  const done = { pay_out: 4, tell_partner: 10, make_report: 8, index_product: 5, book_sale: 40 };
  await until('all of it is done', async () => {
    const counts = await db.rows<{ type: string; jobs: number }>(
      'SELECT type, count(*)::int AS jobs FROM shop.office GROUP BY type',
    );
    const found = Object.fromEntries(counts.map(({ type, jobs }) => [type, jobs]));
    return Object.entries(done).every(([type, jobs]) => found[type] === jobs);
  });
  const { rows, kept } = await officeReport(db.pool);
  expect(kept).toBe(true);
  const text = Object.fromEntries(rows.map(([name, said]) => [name, said]));
  expect(text.payouts).toMatch(/^4, at most [12] at once$/);
  expect(text.reports).toMatch(/^8 of 3 merchants, [12] of one at once$/);
  expect(text['sales booked']).toMatch(/^40, in \d batch/);
});

test('more messages than the rate allows are found', async () => {
  for (let n = 0; n < 35; n++) await note('tell_partner', n / 10, n / 10 + 1);
  expect((await officeReport(db.pool)).kept).toBe(true);
  for (let n = 0; n < 20; n++) await note('tell_partner', n / 10, n / 10 + 1);
  const { rows, kept } = await officeReport(db.pool);
  expect(kept).toBe(false);
  expect(rows.find(([name]) => name === 'partner told')).toMatchObject({ 2: false });
});

test('two at once are within the limit, one after the other too', async () => {
  await note('pay_out', 1, 3);
  await note('pay_out', 2, 4);
  await note('pay_out', 3, 5);
  for (const key of ['a', 'b']) for (const n of [1, 2]) await note('make_report', n, n + 5, key);
  const { rows, kept } = await officeReport(db.pool);
  expect(kept).toBe(true);
  expect(rows.map(([, text]) => text).slice(0, 2)).toEqual([
    '3, at most 2 at once',
    '4 of 2 merchants, 2 of one at once',
  ]);
});

test.each([
  ['pay_out', null],
  ['make_report', 'a'],
])('three of %s at once are found', async (type, key) => {
  for (const n of [1, 2, 3]) await note(type, n, 9, key);
  const { rows, kept } = await officeReport(db.pool);
  expect(kept).toBe(false);
  expect(rows.filter(([, , held]) => !held)).toHaveLength(1);
});

test('a job that was done twice is found', async () => {
  await note('book_sale', 1, 2);
  await db.rows('UPDATE shop.office SET commits = 2');
  expect((await officeReport(db.pool)).kept).toBe(false);
});
