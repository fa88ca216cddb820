// Row 8. After two retentions the archive's pages have been used again and again; a round of
// maintenance that finds nothing to prune reads next to nothing.
import { became, wait } from '../clock.mjs';
import { vacuum } from '../databases.mjs';
import { plain } from '../statistics.mjs';
import { atMost } from './figures.mjs';
import { task } from './scene.mjs';

const GOAL = 50;
/** Beside an empty archive: the first round of a session reads the catalog. */
const DEAREST_GOAL = 1.5;
const ROUNDS_MS = 24_000;

export async function run({ open, size, figure, say }) {
  const count = size(100_000, 10_000);
  const scene = await open();
  await scene.worker({
    types: [{ type: 'task' }],
    options: { concurrency: 50, maintenance: '1s' },
    counted: true,
  });
  // A queue without a job has few rounds.
  await scene.hf.enqueue(task, { n: 'later', ms: 0 }, { delay: '1h' });
  const empty = await scene.meter.watchBuffers('prune', () => wait(ROUNDS_MS));
  const archived = async () =>
    (await scene.admin.query('SELECT count(*)::int AS n FROM holdfast.inbox_archive')).rows[0].n;
  let done = 0;
  const complete = async () => {
    await scene.fill(task, count);
    done += count;
    await became(() => scene.counts.started >= done, 120_000);
    await became(async () => (await archived()) >= count, 30_000, 200);
  };
  for (let retention = 0; retention < 2; retention++) {
    await scene.hf.configureQueue('inbox', { archiveRetention: '1h' });
    await complete();
    await scene.hf.configureQueue('inbox', { archiveRetention: '1s' });
    if (!(await became(async () => (await archived()) === 0, 60_000, 200)))
      throw new Error('the archive was not pruned');
    await vacuum(scene.url, 'holdfast');
  }
  await scene.hf.configureQueue('inbox', { archiveRetention: '1h' });
  await complete();
  await vacuum(scene.url, 'holdfast');
  const { most, p50, calls } = await scene.meter.watchBuffers('prune', () => wait(ROUNDS_MS));
  say(
    `  ${plain(count)} rows that are kept: ${calls} statements that prune, buffers ${plain(p50)}, most ${plain(most)}; of an empty archive ${plain(empty.p50)}, most ${plain(empty.most)}`,
  );
  atMost(figure, 'old_archive_prune_buffers', p50, GOAL);
  atMost(figure, 'old_archive_dearest_prune', most / empty.most, DEAREST_GOAL, ' x');
  await scene.close();
}
