/** Jobs that were claimed by hand: they come back whatever their type, and one printed statement completes them. */
import { readFileSync } from 'node:fs';
import { beforeEach, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { sqlWorkers } from '../support/protocol.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const QUICK = { heartbeat: '200ms', ttl: '1s', lease: '2s', maintenance: '200ms' } as const;

beforeEach(() => db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_claims, holdfast.workers'));

/** As the reference loops claim. */
const claimByHand = () =>
  db.rows<{ id: string; lease_generation: string }>(`
    WITH picked AS (
      SELECT id FROM holdfast.inbox WHERE status = 'pending' AND available_at <= now()
      ORDER BY created_at, id LIMIT 25 FOR UPDATE SKIP LOCKED
    )
    UPDATE holdfast.inbox AS i
    SET status = 'processing', claimed_by = 'hand-1', lease_expires_at = now() + interval '90 seconds',
      lease_generation = lease_generation + 1, attempts = attempts + 1
    FROM picked WHERE i.id = picked.id RETURNING i.*`);

const expire = () =>
  db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 second'`);
const isBack = async (id: string) =>
  (await db.rows(`SELECT FROM holdfast.inbox WHERE id = $1 AND status = 'pending'`, [id]))
    .length === 1;

test('a type that nobody handles comes back when the lease ends, by a worker of another type', async () => {
  const { id } = await db.hf.enqueue(job('of_nobody'), {});
  await claimByHand();
  await expire();
  start(db.hf, (w) => w.handle(job('other'), () => undefined), QUICK);
  await until('it is back', () => isBack(id));
});

test('and by the heartbeats of a worker in SQL, where nobody works in TypeScript', async () => {
  const { id } = await db.hf.enqueue(job('of_nobody'), {});
  await claimByHand();
  await expire();
  await db.rows(`UPDATE holdfast.queues SET serviced_at = '{}', maintained_at = NULL`);
  await (await sqlWorkers(db)(['other'])).beat();
  expect(await isBack(id)).toBe(true);
});

test('the statement that docs/protocol.md prints completes it, once', async () => {
  const page = readFileSync(new URL('../../docs/protocol.md', import.meta.url), 'utf8');
  const section = page.split('\n## Jobs that were claimed by hand\n')[1] as string;
  const [, printed = ''] = /```sql run\n([\s\S]*?)```/.exec(section) ?? [];
  const { id } = await db.hf.enqueue(job('by_hand'), { n: 1 });
  const [held] = await claimByHand();
  const text = printed
    .replace('0199a1c2-7d3e-7000-8000-000000009182', id)
    .replace(/, 2\);/, `, ${held?.lease_generation});`);
  expect(text).toContain(id);
  const states = async () => (await db.rows(text)).map((row) => Object.values(row)[0]);
  expect(await states()).toEqual(['completed']);
  expect(await db.hf.job(id)).toMatchObject({ status: 'completed', attempts: 1 });
  expect(await states()).toEqual(['lost']);
});
