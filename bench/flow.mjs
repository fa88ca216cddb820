// Flow control: what limits and turns cost, and beside the peers that have them.
import { openFixture } from './fixture.mjs';
import { fair } from './flow/fair.mjs';
import { groups } from './flow/groups.mjs';
import { limiter } from './flow/limiter.mjs';
import { rate } from './flow/rate.mjs';

const SECTIONS = { fair, groups, rate, limiter };

export async function flow({ url, only, ...context }) {
  const fixture = await openFixture(url);
  for (const [name, run] of Object.entries(SECTIONS))
    if (only === null || only === name) await run({ fixture, url, ...context });
  await fixture.close();
}
