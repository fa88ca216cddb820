/**
 * The database refuses states that the engine never writes: a hand-written UPDATE in an incident cannot
 * make a job that nobody owns and nobody claims.
 */
import { beforeAll, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';

const db = testDatabase();
const ids = { pending: '', processing: '', dead_letter: '', completed: '' };

beforeAll(async () => {
  for (const state of Object.keys(ids) as (keyof typeof ids)[]) {
    const { id } = await db.hf.enqueue(job(state), {});
    ids[state] = id;
    if (state === 'pending') continue;
    const [held] = await claimAs(db.engine, 'w1', { types: [state] });
    const one = heldOf(held!);
    if (state === 'dead_letter')
      await deadLetter(db.engine, INBOX, 'w1', [{ ...one, error: 'no', summary: 'no' }]);
    if (state === 'completed') await complete(db.engine, INBOX, 'w1', [one]);
  }
});

const OWNER = `claimed_by = 'w1', claimed_at = now(), lease_expires_at = now() + interval '90 s'`;
const NOBODY = 'claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL';

test.each([
  ['pending', `claimed_by = 'w1'`],
  ['pending', 'lease_expires_at = now()'],
  ['pending', OWNER],
  ['pending', `available_at = 'infinity'`],
  ['pending', `status = 'processing'`],
  ['pending', `status = 'processing', ${OWNER}`],
  ['pending', `status = 'dead_letter'`],
  ['processing', 'claimed_by = NULL'],
  ['processing', 'lease_expires_at = NULL'],
  ['processing', 'lease_generation = 0'],
  ['processing', `available_at = 'infinity'`],
  ['processing', `status = 'pending'`],
  ['processing', NOBODY],
  ['processing', `status = 'dead_letter', ${NOBODY}`],
  ['processing', `status = 'dead_letter', available_at = 'infinity'`],
  ['dead_letter', 'available_at = now()'],
  ['dead_letter', `claimed_by = 'w1'`],
  ['dead_letter', 'claimed_at = now()'],
  ['dead_letter', 'lease_expires_at = now()'],
  ['dead_letter', `status = 'pending'`],
  ['pending', 'completed_at = now()'],
  ['processing', 'completed_at = now()'],
  ['pending', `status = 'completed'`],
  ['pending', `status = 'completed', completed_at = now()`],
  ['processing', `status = 'failed'`],
  ['dead_letter', `status = 'cancelled'`],
  ['pending', 'attempts = -1'],
  ['pending', 'parked = true'],
  ['processing', 'parked = true'],
] as const)('Postgres refuses to make a %s job: SET %s', async (state, set) => {
  const read = 'SELECT i::text AS row FROM holdfast.inbox AS i WHERE id = $1';
  const before = await db.rows(read, [ids[state]]);
  const update = db.rows(`UPDATE holdfast.inbox SET ${set} WHERE id = $1`, [ids[state]]);
  await expect(update).rejects.toMatchObject({ code: '23514', table: 'inbox' });
  expect(await db.rows(read, [ids[state]])).toEqual(before);
});

test.each([
  ['positive', 'max_attempts = 0'],
  ['positive', 'version = 0'],
  ['priority', 'priority = 0'],
  ['priority', 'priority = 5'],
  ['bucket', 'partition_bucket = -1'],
  ['bucket', 'partition_bucket = 1024'],
])('Postgres refuses what is not of the domain %s: SET %s', async (dataType, set) => {
  const update = db.rows(`UPDATE holdfast.inbox SET ${set} WHERE id = $1`, [ids.pending]);
  await expect(update).rejects.toMatchObject({ code: '23514', dataType });
});

test.each(['pending', 'processing', 'failed'])(
  'Postgres refuses an archived job with the status %s',
  async (status) => {
    const update = db.rows('UPDATE holdfast.inbox_archive SET status = $2 WHERE id = $1', [
      ids.completed,
      status,
    ]);
    await expect(update).rejects.toMatchObject({
      code: '23514',
      table: expect.stringMatching(/^inbox_archive/),
    });
  },
);

test('Postgres accepts each state that the engine writes, set by hand with its columns', async () => {
  const moves = [
    `status = 'processing', lease_generation = 1, ${OWNER}`,
    `status = 'dead_letter', available_at = 'infinity', ${NOBODY}`,
    'parked = true',
    `status = 'pending', available_at = now(), parked = false`,
  ];
  for (const set of moves) {
    const rows = await db.rows(`UPDATE holdfast.inbox SET ${set} WHERE id = $1 RETURNING id`, [
      ids.pending,
    ]);
    expect(rows).toHaveLength(1);
  }
});
