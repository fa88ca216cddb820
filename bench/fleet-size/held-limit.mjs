// Row 2. Somebody locks the row of a limit in psql and goes to lunch: the type of this limit waits,
// and nothing else does.
import { job } from '../../packages/holdfast/dist/index.js';
import { clock } from '../clock.mjs';
import { atMost, holds, longestGap, part } from './figures.mjs';
import { task } from './scene.mjs';

const limited = job('limited');
const PER_SECOND = 20;

export async function run({ open, size, figure, say }) {
  const scene = await open();
  const seconds = size(30, 12);
  await scene.workers(2, {
    types: [{ type: 'task' }, { type: 'limited', limit: { concurrency: 5 } }],
  });
  const psql = await scene.session();
  await psql.query('BEGIN');
  await psql.query(`SELECT * FROM holdfast.limits WHERE type = 'limited' FOR UPDATE`);
  const from = clock();
  const [plain, waiting] = await Promise.all([
    scene.offer(task, { perSecond: PER_SECOND, seconds, prefix: 'plain' }),
    scene.offer(limited, { perSecond: 2, seconds, prefix: 'held' }),
  ]);
  // A job that was offered last has a second, as every other one has.
  await scene.all(plain, 'start', 1_000);
  const to = clock();
  const ran = plain.filter(({ name }) => scene.runs.get(name)?.start < to).length;
  const during = waiting.filter(({ name }) => scene.runs.get(name)?.start < to).length;
  const starts = plain.flatMap(({ name }) => scene.runs.get(name)?.start ?? []);
  await psql.query('ROLLBACK');
  await psql.end();
  const after = await scene.all(waiting, 'end', 15_000);
  say(`  held for ${((to - from) / 1000).toFixed(1)} s`);
  part(figure, 'held_limit_plain_ran', ran, plain.length);
  atMost(figure, 'held_limit_plain_longest_gap', longestGap(starts, from, to), 1_000, ' ms');
  atMost(figure, 'held_limit_limited_ran_meanwhile', during, 0);
  holds(figure, 'held_limit_limited_ran_afterwards', after ? 'yes' : 'no', after);
  await scene.close();
}
