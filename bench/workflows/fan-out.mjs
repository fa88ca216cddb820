// Ten thousand children beside the same jobs alone.
import { measured, median } from '../statistics.mjs';
import { now } from './clock.mjs';
import { collect, startProcess } from './process.mjs';
import { ratio } from './steps.mjs';

export async function fanOut({
  systems: { holdfast: system },
  databases,
  size,
  rounds,
  figure,
  fact,
}) {
  const count = size(10_000, 2_000);
  const found = { children: [], alone: [] };
  for (let round = 0; round < rounds(5, 2); round++) {
    const url = await databases.fresh(system);
    const workers = await Promise.all([1, 2].map(() => startProcess(system, url)));
    const client = await system.client(url);
    for (let n = 0; n < 2; n++) {
      const told = collect(workers, 'plain', count / 100 - 1);
      const from = now();
      await client.plain(count);
      const to = Math.max(...(await told).map(({ at }) => at));
      const ended = collect(workers, 'ended', 1);
      const began = now();
      await client.start('fan', { count });
      const [fan] = await ended;
      // The first ones warm up the processes.
      if (n > 0) {
        found.alone.push(to - from);
        found.children.push(fan.to - began);
      }
    }
    await client.close();
    await Promise.all(workers.map((worker) => worker.kill()));
  }
  for (const [name, values] of Object.entries(found))
    fact(`workflows.fan_out_${name}_ms`, measured(values));
  const cost = median(found.children) / median(found.alone);
  ratio(figure, 'workflows.fan_out_to_jobs_alone', cost, '<=', 1.3);
}
