// A worker of this process that drains what lies in the queue, and how long that takes.
import { job } from '../../packages/holdfast/dist/index.js';

const noop = job('noop');

/** Jobs of type `noop` per second, until `count` of them are completed. */
export async function drainRate(hf, count, { options = {}, onFifty = () => {} } = {}) {
  let ended = () => {};
  const finished = new Promise((resolve) => {
    ended = resolve;
  });
  let completed = 0;
  let from = performance.now();
  const worker = hf
    .worker({
      handleSignals: false,
      ...options,
      onEvent: (event) => {
        if (event.kind === 'started') from = performance.now();
        if (event.kind !== 'completed') return;
        completed++;
        if (completed % 50_000 === 0) onFifty(completed);
        if (completed === count) ended();
      },
    })
    .handle(noop, () => {});
  const running = worker.run();
  await finished;
  const rate = (count / (performance.now() - from)) * 1000;
  await worker.stop({ grace: 1_000 });
  await running;
  return rate;
}
