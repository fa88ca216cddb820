// What a queue with a rate and many waiting jobs costs those who have no limit. Both sides alternate in one run.
// Once with a rate so low that hardly any starts, which is the cost of waiting; and once with a hundred starts a second,
// one by one, which mostly is what a hundred single jobs a second cost without a limit too.
import { job } from '../../packages/holdfast/dist/index.js';
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

/** Resolves when it is at work: the start of a worker is no part of what is measured. */
async function startWorker(hf, definition) {
  let started = () => {};
  const atWork = new Promise((resolve) => {
    started = resolve;
  });
  const onEvent = ({ kind }) => kind === 'started' && started();
  const worker = hf.worker({ handleSignals: false, onEvent }).handle(definition, () => undefined);
  const running = worker.run();
  await atWork;
  return {
    completed: () => worker.stats.completed,
    async stop() {
      await worker.stop();
      await running;
    },
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
  const { completed, stop } = await startWorker(hf, free);
  await until(() => completed() === jobs);
  const perSecond = jobs / ((performance.now() - began) / 1_000);
  await stop();
  return perSecond;
}

/** What filling the queue wrote is cleaned up. Jobs that wait for a rate are not written to. */
async function settled({ admin }) {
  await admin.query('VACUUM ANALYZE holdfast.paced');
  await admin.query('CHECKPOINT');
}

/** What part of its throughput a worker loses to one with a rate, in percent. */
async function lossBeside(fixture, per, { quick, say }) {
  const definition = paced(per);
  await settled(fixture);
  const [rounds, jobs] = quick ? [3, 10_000] : [7, 150_000];
  await throughput(fixture, jobs);
  const [alone, beside] = [[], []];
  for (let round = 0; round < rounds; round++) {
    alone.push(await throughput(fixture, jobs));
    const { stop } = await startWorker(fixture.hf, definition);
    beside.push(await throughput(fixture, jobs));
    await stop();
  }
  say(
    `${median(alone).toFixed(0)} jobs a second alone, ${median(beside).toFixed(0)} beside ${per}`,
  );
  return 100 * (1 - pairwise(beside, alone));
}

const MOST_LOST = 5;

export async function rate({ fixture, quick, figure, fact, say }) {
  await fixture.hf.createQueue('paced');
  await fill(fixture.hf, paced('1m'), WAITING);
  const lost = await lossBeside(fixture, '1m', { quick, say });
  figure('flow.loss_beside_rate_percent', lost.toFixed(1), `<= ${MOST_LOST}`, lost <= MOST_LOST);
  const starting = await lossBeside(fixture, '1s', { quick, say });
  fact('flow.loss_beside_100_starts_a_second_percent', starting.toFixed(1));
}
