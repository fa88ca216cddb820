// What a queue with a rate and many waiting jobs costs those who have no limit. Both sides alternate in one run.
// Once with a rate so low that hardly any starts, which is the cost of waiting; and once with a hundred starts a second,
// one by one, which mostly is what a hundred single jobs a second cost without a limit too.
import { job } from '../../dist/index.js';
import { median, pairwise } from '../statistics.mjs';

const WAITING = 100_000;
const free = job('free');
// All day long, and never done.
const paced = (per) =>
  job('paced', { queue: 'paced', limit: { rate: { limit: 100, per, burst: 10 } } });

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(ask) {
  while (!(await ask())) await pause(50);
}

function startWorker(hf, definition) {
  const worker = hf.worker({ handleSignals: false }).handle(definition, () => undefined);
  const running = worker.run();
  return async () => {
    await worker.stop();
    await running;
  };
}

async function fill(hf, definition, count) {
  for (let left = count; left > 0; left -= 10_000) {
    const items = Array.from({ length: Math.min(left, 10_000) }, () => definition.item({}));
    await hf.enqueueMany(items);
  }
}

/** Jobs a second of a worker without a limit. */
async function throughput({ hf, admin }, jobs) {
  await admin.query('TRUNCATE holdfast.inbox, holdfast.inbox_archive, holdfast.inbox_claims');
  await fill(hf, free, jobs);
  const began = performance.now();
  const stop = startWorker(hf, free);
  await until(async () => {
    const { rows } = await admin.query('SELECT count(*)::int AS n FROM holdfast.inbox');
    return rows[0].n === 0;
  });
  const perSecond = jobs / ((performance.now() - began) / 1_000);
  await stop();
  return perSecond;
}

/** A queue with a rate and 100,000 jobs that wait, and a worker of it, beside one without a limit. */
async function besideRate(ground, { quick, say }) {
  const { hf, admin } = ground;
  await hf.createQueue('paced');
  await fill(hf, paced('1m'), WAITING);
  const began = performance.now();
  const reserve = startWorker(hf, paced('1m'));
  await until(async () => {
    const { rows } = await admin.query(
      'SELECT count(*)::int AS n FROM holdfast.paced WHERE limit_slot IS NULL',
    );
    return rows[0].n === 0;
  });
  say(`all have a slot after ${((performance.now() - began) / 1_000).toFixed(1)} s`);
  await reserve();
  const [rounds, jobs] = quick ? [3, 10_000] : [7, 40_000];
  await throughput(ground, jobs);
  const [alone, few, many] = [[], [], []];
  const besideA = async (per) => {
    const stop = startWorker(hf, paced(per));
    const rate = await throughput(ground, jobs);
    await stop();
    return rate;
  };
  for (let round = 0; round < rounds; round++) {
    alone.push(await throughput(ground, jobs));
    few.push(await besideA('1m'));
    many.push(await besideA('1s'));
  }
  say(
    `${median(alone).toFixed(0)} jobs a second alone, ${median(few).toFixed(0)} beside 100 a minute, ` +
      `${median(many).toFixed(0)} beside 100 a second`,
  );
  return [few, many].map((rates) => 100 * (1 - pairwise(rates, alone)));
}

const MOST_LOST = 5;

export async function rate({ ground, quick, figure, fact, say }) {
  const [lost, starting] = await besideRate(ground, { quick, say });
  figure('flow.loss_beside_rate_percent', lost.toFixed(1), `<= ${MOST_LOST}`, lost <= MOST_LOST);
  fact('flow.loss_beside_100_starts_a_second_percent', starting.toFixed(1));
}
