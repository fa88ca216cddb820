// Flow control of Holdfast alone: what limits and turns cost.
import { fair } from './flow/fair.mjs';
import { rate } from './flow/rate.mjs';
import { openGround } from './ground.mjs';

const SECTIONS = { fair, rate };

export async function flow({ url, only, ...context }) {
  const ground = await openGround(url);
  for (const [name, run] of Object.entries(SECTIONS))
    if (only === null || only === name) await run({ ground, url, ...context });
  await ground.close();
}
