/** What a history says of a long error is cut between characters. */
import { expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();

test('a failure whose first line is cut in the middle of a character is written, wherever it is cut', async () => {
  const fails = job<number>('fails', { maxAttempts: 2, retry: { base: 1, cap: 1 } });
  start(db.hf, (worker) =>
    worker.handle(fails, ({ payload }) => {
      throw new Error(`${'x'.repeat(payload)}${'😀'.repeat(100)}`);
    }),
  );
  const lengths = [290, 291, 292, 293];
  const jobs = await db.hf.enqueueMany(lengths.map((length) => fails.item(length)));
  for (const { id } of jobs) {
    const { status } = await db.hf.wait(id, { timeout: '20s' });
    expect(status).toBe('dead_letter');
    const found = await db.hf.job(id);
    expect(found?.history).toHaveLength(2);
    for (const { error } of found?.history ?? []) expect(error).toMatch(/^Error: x+(😀)?…$/u);
    expect(found?.lastError).toContain('😀');
  }
});
