/** Node warns of leaks that are none while the database is away, unless it is told. */
import { expect, onTestFinished, test } from 'vitest';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { Line } from '../support/line.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const parent = job<{ n: number }>('parent');
const child = job<{ n: number }>('child');

test('jobs that wait for a database that is away make no warning', async () => {
  const total = 30;
  const warnings: Error[] = [];
  const warned = (warning: Error) => void warnings.push(warning);
  process.on('warning', warned);
  onTestFinished(() => void process.off('warning', warned));
  const line = await Line.to(db.url);
  await line.mend();
  const hf = holdfast({ connectionString: line.url, logger: quietLogger });
  onTestFinished(() => hf.close());
  await db.hf.enqueueMany(Array.from({ length: total }, (_, n) => parent.item({ n })));
  const away = gate();
  const { worker, events } = start(
    hf,
    (w) =>
      w
        .handle(parent, async (ctx) => {
          await away.opened;
          await ctx.enqueue(child, { n: ctx.payload.n });
        })
        .handle(child, () => {}),
    { concurrency: total },
  );
  const count = (part: (event: (typeof events)[number]) => boolean) => events.filter(part).length;
  await until('all run', () => count(({ kind }) => kind === 'started-job') === total);
  line.cut();
  away.open();
  await until(
    'all have met the outage',
    () => count((e) => e.kind === 'error' && e.what === 'completing a job with children') >= total,
  );
  await line.mend();
  await until('all are done', () => worker.stats.completed === 2 * total);
  expect(warnings.map(String)).toEqual([]);
});
