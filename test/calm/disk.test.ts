/**
 * What a waiting job takes on disk: its row, its indexes and the room that a claim needs on its page. 450 bytes
 * are possible with a fillfactor of 70. Then only 35 % of the claims of a backlog are HOT, instead of 88 %, and
 * a drain costs Postgres 39 instead of 30 µs a job; see docs/decisions/0011.
 */
import { expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { calmGround, figure } from '../support/calm.js';

const JOBS = 20_000;
/** 67 bytes of JSON. */
const PAYLOAD = { user: 1234567, template: 'welcome', locale: 'en-GB', retry: true };

test('a waiting job with 67 bytes of payload takes at most 600 bytes', async () => {
  expect(JSON.stringify(PAYLOAD)).toHaveLength(67);
  const db = await calmGround();
  const mail = job<object>('mail');
  const items = Array.from({ length: JOBS }, () => mail.item(PAYLOAD));
  for (let from = 0; from < JOBS; from += 2_000)
    await db.hf.enqueueMany(items.slice(from, from + 2_000));
  await db.pool.query('VACUUM holdfast.inbox');
  const [row] = await db.rows<{ bytes: string }>(
    `SELECT pg_total_relation_size('holdfast.inbox') AS bytes`,
  );
  const bytes = Number(row?.bytes) / JOBS;
  figure('disk of a waiting job', bytes, 'bytes');
  expect(bytes).toBeLessThanOrEqual(600);
});
