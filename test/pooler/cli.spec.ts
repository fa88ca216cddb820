/** The command line through PgBouncer: every question is answered, every verb works, and nothing is left behind. */
import { expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { run, values } from '../support/cli-run.js';
import { pooledGround, testPooler } from './ground.js';

const pooler = testPooler();

test('looking, acting and the doctor', async () => {
  const db = await pooledGround(pooler());
  const env = { DATABASE_URL: db.url };
  const { id } = await db.hf.enqueue(job('noop'), {});
  for (const words of [
    'status',
    'jobs ls',
    `jobs show ${id}`,
    `explain ${id}`,
    'queues ls',
    'workers ls',
    'top --once',
    'archive ls',
    'dead-letters ls',
    'ring',
  ]) {
    expect({ words, ...(await run(words.split(' '), { env })) }).toMatchObject({ words, code: 0 });
  }
  await db.direct.query(
    `UPDATE holdfast.inbox SET status = 'dead_letter', available_at = 'infinity'`,
  );
  expect(await run(['dead-letters', 'retry', '--all', '--yes'], { env })).toMatchObject({
    code: 0,
    out: '1 retried\n',
  });
  expect((await run(['queues', 'pause', 'inbox'], { env })).code).toBe(0);
  const findings = values<{ check: string; level: string }>(
    (await run(['doctor', '--json'], { env, cwd: '/tmp' })).out,
  );
  const of = (check: string) => findings.find((one) => one.check === check)?.level;
  expect([of('pooling'), of('notifications'), of('schema drift'), of('paused')]).toEqual([
    'note',
    'note',
    'ok',
    'note',
  ]);
  await db.leavesNothing();
});
