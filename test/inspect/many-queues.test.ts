/** Many queues: those without a row are found by one question, with the figures that each would give for itself. */
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { emptyQueues } from '../../packages/holdfast/src/inspect/queue/empty.js';
import { openOverview } from '../../packages/holdfast/src/inspect/queue/overview.js';
import { listQueues } from '../../packages/holdfast/src/inspect/queue/queues.js';
import { queueSize } from '../../packages/holdfast/src/inspect/queue/size.js';
import { reading } from '../../packages/holdfast/src/inspect/reading/reading.js';
import { testDatabase } from '../support/database.js';
import { examine } from '../support/doctor.js';

const db = testDatabase();
beforeAll(async () => {
  for (let n = 1; n <= 21; n++) await db.hf.createQueue(`q${n}`);
  await db.hf.enqueue(job('t', { queue: 'q7' }), {});
});

const empty = async () =>
  emptyQueues(db.engine, 'holdfast', await listQueues(db.engine, 'holdfast'));

test('a queue with a job is not among them; the others say what they would say by themselves', async () => {
  const found = await empty();
  expect(found.size).toBe(21);
  expect(found.has('q7')).toBe(false);
  const { at: _, ...asked } = await queueSize(db.engine, { schema: 'holdfast', queue: 'q3' });
  expect(found.get('q3')).toMatchObject({ size: asked, unused: true });
});

test('the status and a scrape have all of them, with the job', async () => {
  const seen = await reading(db.pool, (reader, part) =>
    openOverview(reader, part, 'holdfast', { withRates: true }),
  );
  expect(seen.queues).toHaveLength(22);
  const pending = seen.queues.filter(({ counts }) => counts.pending > 0);
  expect(pending.map(({ queue }) => queue.name)).toEqual(['q7']);
  const { queues, waiting } = await db.hf.gauges();
  expect(queues).toHaveLength(22);
  expect(waiting).toEqual([{ queue: 'q7', reason: 'waiting_its_turn', jobs: 1 }]);
});

test('one that is locked is left to be asked for itself, which says so', async () => {
  const client = await db.pool.connect();
  onTestFinished(async () => {
    await client.query('ROLLBACK');
    client.release();
  });
  await client.query('BEGIN; LOCK TABLE holdfast.q9');
  expect((await empty()).has('q9')).toBe(false);
  const { locked, queues } = await reading(
    db.pool,
    (reader, part) => openOverview(reader, part, 'holdfast'),
    { lockMs: 100 },
  );
  expect(locked.map(({ queue }) => queue.name)).toEqual(['q9']);
  expect(queues).toHaveLength(21);
});

test('the doctor says nothing of queues without a job', async () => {
  const findings = await examine(db.url, { compared: false });
  expect(findings.some(({ text }) => text.includes('q7'))).toBe(true);
  expect(findings.some(({ text }) => /\bq3\b/.test(text))).toBe(false);
});
