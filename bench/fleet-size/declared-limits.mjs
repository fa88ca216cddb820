// Row 1. A limit that nobody uses costs nothing: a steady load of a plain type on four workers, which
// also handle three types that have limits, or the same three without, and no job of theirs.
import { wait } from '../clock.mjs';
import { ratio } from './figures.mjs';
import { startsOf, task } from './scene.mjs';

const GOAL = 1.1;
const PER_SECOND = 50;
const LIMITS = {
  few_at_once: { concurrency: 5 },
  slowly: { rate: { limit: 100, per: '1m' } },
  both: { concurrency: 5, rate: { limit: 100, per: '1m' } },
};

async function measure(open, limited, seconds) {
  const scene = await open();
  const types = [
    { type: 'task' },
    ...Object.entries(LIMITS).map(([type, limit]) => ({ type, ...(limited && { limit }) })),
  ];
  await scene.workers(4, { types });
  await scene.offer(task, { perSecond: PER_SECOND, seconds: 1, prefix: 'warm' });
  await wait(500);
  const [cpu, statements] = [scene.meter.cpuMs(), await scene.meter.statements()];
  const offered = await scene.offer(task, { perSecond: PER_SECOND, seconds, prefix: 'steady' });
  await scene.all(offered, 'end', 10_000);
  const spent = {
    cpu: scene.meter.cpuMs() - cpu,
    statements: ((await scene.meter.statements()) - statements) / seconds,
    ...startsOf(scene.waits(offered)),
  };
  await scene.close();
  return spent;
}

export async function run({ open, size, rounds, figure, say }) {
  const found = { plain: [], limited: [] };
  for (let round = 0; round < rounds; round++) {
    const order = ['plain', 'limited'];
    for (const side of round % 2 ? order.reverse() : order) {
      const one = await measure(open, side === 'limited', size(20, 5));
      found[side].push(one);
      say(
        `  ${side}: ${one.cpu} ms CPU, ${one.statements.toFixed(1)} statements/s, start p50 ${one.p50.toFixed(1)}, p99 ${one.p99.toFixed(1)} ms`,
      );
    }
  }
  const tell = (what, unit) =>
    ratio(figure, `declared_limits_${what}`, {
      values: found.limited.map((one) => one[what]),
      base: found.plain.map((one) => one[what]),
      goal: GOAL,
      unit,
    });
  tell('cpu', ' ms');
  tell('statements', '/s');
  tell('p50', ' ms');
  tell('p99', ' ms');
}
