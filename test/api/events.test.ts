/** Those who listen to hf.onEvent. */
import { expect, onTestFinished, test } from 'vitest';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { recordingLogger } from '../support/logger.js';
import { until } from '../support/until.js';

const db = testDatabase();

test.each([
  [
    'throws',
    () => {
      throw new Error('no ink');
    },
  ],
  ['rejects', () => Promise.reject(new Error('no ink'))],
])(
  'an observer that %s fails no enqueue and keeps nobody else from hearing of it',
  async (_, fails) => {
    const logger = recordingLogger();
    const hf = holdfast({ connectionString: db.url, logger });
    onTestFinished(() => hf.close());
    const kinds: string[] = [];
    hf.onEvent(fails as () => void);
    hf.onEvent(({ kind }) => void kinds.push(kind));
    const { id } = await hf.enqueue(job('heard'), {});
    expect(await db.hf.job(id)).toMatchObject({ status: 'pending' });
    expect(kinds).toEqual(['enqueued']);
    // A rejection that nobody handled would fail this test.
    await until('it was logged', () => logger.lines.length > 0);
    expect(logger.lines).toEqual([
      { level: 'error', facts: { err: 'no ink' }, message: 'an observer failed' },
    ]);
  },
);
