/**
 * A completion looks for a row where its claim has left it. That place is a hint: a row that has moved is
 * completed all the same, and whatever else stands at the place is left alone.
 */
import { beforeEach, expect, test } from 'vitest';
import { job } from '../src/index.js';
import { renew } from '../src/lease/renew.js';
import { complete } from '../src/settle/complete.js';
import { release } from '../src/settle/release.js';
import { claimAs, heldOf } from './support/claiming.js';
import { INBOX, testDatabase } from './support/database.js';

const db = testDatabase();
const work = job<{ n: number }>('work');
const [ME, OTHER] = ['worker-1', 'worker-2'];

beforeEach(async () => {
  await db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_archive');
});

async function held(count: number) {
  await db.hf.enqueueMany(Array.from({ length: count }, (_, n) => work.of({ n })));
  return (await claimAs(db.engine, ME, { types: ['work'] })).map(heldOf);
}

const left = async () =>
  (await db.rows<{ id: string }>('SELECT id FROM holdfast.inbox ORDER BY id')).map(({ id }) => id);
const placeOf = async (id: string) =>
  (
    await db.rows<{ place: string }>('SELECT ctid AS place FROM holdfast.inbox WHERE id = $1', [id])
  )[0]?.place;

test('the place that a claim returns is where the claimed row stands', async () => {
  for (const one of await held(20)) expect(await placeOf(one.id)).toBe(one.place.place);
});

test('what has moved since is completed with the rest', async () => {
  const jobs = await held(5);
  const renewed = jobs.slice(1, 3);
  await renew(db.engine, INBOX, ME, renewed, 90_000);
  for (const one of renewed) expect(await placeOf(one.id)).not.toBe(one.place.place);
  const done = await complete(db.engine, INBOX, ME, jobs);
  expect(done.sort()).toEqual(jobs.map(({ id }) => id).sort());
  expect(await left()).toEqual([]);
});

test('a table that was written anew loses nothing', async () => {
  const jobs = await held(50);
  await db.rows('DELETE FROM holdfast.inbox WHERE id = $1', [jobs[0]!.id]);
  await db.rows('VACUUM FULL holdfast.inbox');
  const done = await complete(db.engine, INBOX, ME, jobs);
  expect(done).toHaveLength(49);
  expect(await left()).toEqual([]);
});

test('another job at the place is left alone', async () => {
  const [mine, theirs] = await held(2);
  const place = { ...mine!.place, place: theirs!.place.place };
  const done = await complete(db.engine, INBOX, ME, [{ ...mine!, place }]);
  expect(done).toEqual([mine!.id]);
  expect(await left()).toEqual([theirs!.id]);
});

test('a place does not replace the fence', async () => {
  const [old] = await held(1);
  await release(db.engine, INBOX, ME, [old!]);
  const [now] = await claimAs(db.engine, OTHER, { types: ['work'] });
  const place = now!;
  expect(await complete(db.engine, INBOX, ME, [{ ...old!, place }])).toEqual([]);
  expect(await complete(db.engine, INBOX, OTHER, [{ ...old!, place }])).toEqual([]);
  expect(await complete(db.engine, INBOX, ME, [heldOf(now!)])).toEqual([]);
  expect(await left()).toEqual([old!.id]);
  expect(await complete(db.engine, INBOX, OTHER, [heldOf(now!)])).toEqual([old!.id]);
});
