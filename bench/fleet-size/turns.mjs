// Row 12. In a queue whose keys take turns, jobs of a key that nobody handles stand before one that
// somebody does.
import { job } from '../../packages/holdfast/dist/index.js';
import { became, clock } from '../clock.mjs';
import { inTime } from './figures.mjs';

const UNHANDLED = 6_000;
const GOAL_MS = 2_000;
const KEY = { partitionKey: 'tenant:7' };

export async function run({ open, size, figure }) {
  const scene = await open();
  await scene.hf.createQueue('turns', { perKey: 2, fair: true });
  await scene.fill(job('nobody', { queue: 'turns' }), UNHANDLED, (n) => ({
    payload: { n, ms: 0 },
    options: KEY,
  }));
  await scene.workers(1, { types: [{ type: 'task', queue: 'turns' }] });
  const from = clock();
  await scene.hf.enqueue(job('task', { queue: 'turns' }), { n: 'runnable', ms: 0 }, KEY);
  await became(() => scene.runs.has('task runnable'), size(60_000, 10_000));
  const start = scene.runs.get('task runnable')?.start ?? Number.POSITIVE_INFINITY;
  inTime(figure, 'turns_runnable_started', start - from, GOAL_MS);
  await scene.close();
}
