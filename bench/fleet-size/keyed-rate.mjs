// Row 6. A rate with keys works in queues of every ordering, and a million keys start as fast as jobs
// without a limit do.
import { job } from '../../packages/holdfast/dist/index.js';
import { became, clock } from '../clock.mjs';
import { plain } from '../statistics.mjs';
import { atLeast, holds } from './figures.mjs';

const RATE = { rate: { limit: 2, per: '1h', burst: 2, key: true } };
const SHARE_GOAL = 0.5;
const QUEUES = { key: { ordering: 'key' }, turns: { perKey: 5, fair: true } };
const keyed = { limit: { rate: { ...RATE.rate, key: ({ key }) => key } } };

/** Three keys with five jobs each, of which two may start. */
async function works(open, name) {
  const scene = await open();
  try {
    await scene.hf.createQueue(name, QUEUES[name]);
    await scene.workers(1, { types: [{ type: 'keyed', queue: name, limit: RATE }] });
    const definition = job('keyed', { queue: name, ...keyed });
    await scene.fill(definition, 15, (n) => ({
      payload: { n, ms: 0, key: `k${n % 3}` },
      options: { partitionKey: `k${n % 3}` },
    }));
    await became(() => scene.runs.size >= 7, 4_000);
    return scene.runs.size === 6 ? 'yes' : `${scene.runs.size} of 6 started`;
  } catch (error) {
    return `no: ${error.message.split('\n')[0].slice(0, 80)}`;
  } finally {
    await scene.close();
  }
}

/** Starts a second until all have started, one job a key, or until the time is over. */
async function drained(open, { count, limitMs }, limited) {
  const scene = await open();
  const definition = job('keyed', limited ? keyed : {});
  await scene.fill(definition, count, (n) => ({ payload: { n, ms: 0, key: `k${n}` } }));
  await scene.worker({
    types: [{ type: 'keyed', ...(limited && { limit: RATE }) }],
    options: { concurrency: 50 },
    counted: true,
  });
  const from = clock();
  await became(() => scene.counts.started >= count, limitMs);
  const perSecond = (scene.counts.started * 1_000) / (clock() - from);
  await scene.close();
  return perSecond;
}

export async function run({ open, size, figure, say }) {
  for (const name of Object.keys(QUEUES)) {
    const answer = await works(open, name);
    holds(figure, `keyed_rate_in_${name}_queue`, answer, answer === 'yes');
  }
  const count = size(1_000_000, 20_000);
  const how = { count, limitMs: size(120_000, 8_000) };
  const possible = await drained(open, how, false);
  const limited = await drained(open, how, true);
  say(`  ${plain(count)} keys: ${plain(limited)} starts/s; without a limit ${plain(possible)}`);
  atLeast(figure, 'keyed_rate_starts', limited / possible, SHARE_GOAL, ' x');
}
