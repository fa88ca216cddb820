// A turn of a run with 10,000 recorded steps: from the signal to the next step.
import { measured, median } from '../statistics.mjs';
import { now } from './clock.mjs';
import { startProcess } from './process.mjs';
import { ratio } from './steps.mjs';

const COUNT = 10_000;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function longRuns({ systems: { holdfast: system }, databases, size, figure, fact }) {
  const url = await databases.fresh(system);
  const worker = await startProcess(system, url);
  const client = await system.client(url);
  const id = await client.start('long', { count: COUNT });
  await worker.next('ready');
  const found = [];
  for (let n = 0; n < size(15, 5); n++) {
    await pause(300);
    const from = now();
    await client.signal(id, 'long');
    const { at } = await worker.next('step');
    if (n > 0) found.push(at - from);
  }
  await client.close();
  await worker.kill();
  fact('workflows.turn_of_10000_steps_ms', measured(found));
  ratio(figure, 'workflows.turn_of_10000_steps_p50_ms', median(found), '<=', 200, 0);
}
