// How soon a run begins and goes on, in another process than the one that starts it and sends the signal.
import { measured, percentile } from '../statistics.mjs';
import { now } from './clock.mjs';
import { startProcess } from './process.mjs';
import { ratio } from './steps.mjs';

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function measure(system, url, count) {
  const worker = await startProcess(system, url);
  const client = await system.client(url);
  const starts = [];
  const signals = [];
  for (let n = 0; n < count + 3; n++) {
    const from = now();
    await client.start('first');
    const { at } = await worker.next('step');
    if (n >= 3) starts.push(at - from);
    await pause(20 + Math.random() * 30);
  }
  for (let n = 0; n < count + 3; n++) {
    const id = await client.start('signalled');
    await worker.next('ready');
    // By then the run waits.
    await pause(150);
    const from = now();
    await client.signal(id, 'signalled');
    const { at } = await worker.next('step');
    if (n >= 3) signals.push(at - from);
  }
  await client.close();
  await worker.kill();
  return { starts, signals };
}

export async function latency({ systems, databases, size, figure, fact, raw }) {
  const found = {};
  for (const system of Object.values(systems)) {
    const ours = system.name === 'holdfast';
    const url = await databases.fresh(system);
    found[system.name] = await measure(system, url, ours ? size(100, 30) : size(20, 8));
    const { starts, signals } = found[system.name];
    fact(`workflows.start_to_first_step_ms_${system.name}`, measured(starts));
    fact(`workflows.signal_to_next_step_ms_${system.name}`, measured(signals));
  }
  raw('latency', found);
  const { starts, signals } = found.holdfast;
  ratio(figure, 'workflows.start_to_first_step_p50_ms', percentile(starts, 0.5), '<=', 5);
  ratio(figure, 'workflows.signal_to_next_step_p50_ms', percentile(signals, 0.5), '<=', 8);
}
