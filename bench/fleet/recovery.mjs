// From SIGKILL of a worker process to the start of its job elsewhere.
import { job } from '../../packages/holdfast/dist/index.js';
import { clock } from '../clock.mjs';
import { percentile } from '../statistics.mjs';
import { serverIsOld, startWorker, stopWorkers, until } from './processes.mjs';

const hold = job('hold');

async function kills(fixture, count, options, ready) {
  const heard = new Map();
  const hear = (message, child) => {
    if (message.kind === 'held')
      heard.set(`${message.id} ${message.generation}`, { message, child });
  };
  const fleet = () => startWorker(fixture.url, { concurrency: 5, ...options }, hear);
  for (let n = 0; n < 3; n++) fleet();
  const times = [];
  for (let n = 0; n < count; n++) {
    await until('three workers', () => ready(fixture.admin));
    const { id } = await fixture.hf.enqueue(hold, {}, { partitionKey: `order:${n}` });
    await until('the job to be held', () => heard.has(`${id} 1`));
    const { child } = heard.get(`${id} 1`);
    const at = clock();
    child.kill('SIGKILL');
    fleet();
    await until('the job to run elsewhere', () => heard.has(`${id} 2`));
    times.push((heard.get(`${id} 2`).message.at - at) / 1000);
  }
  await stopWorkers();
  await fixture.admin.query("UPDATE holdfast.workers SET status = 'dead' WHERE status <> 'dead'");
  return times;
}

const alive = (condition) => async (admin) => {
  const { rows } = await admin.query(
    `SELECT count(*)::int AS n FROM holdfast.workers WHERE status = 'alive' ${condition}`,
  );
  return rows[0].n >= 3;
};

export async function recovery({ fixture, quick, figure, say }) {
  await serverIsOld(fixture.admin);
  const byDefault = await kills(fixture, quick ? 5 : 30, {}, alive('AND watched'));
  const p99 = percentile(byDefault, 0.99);
  say(`recovery by default: ${byDefault.map((s) => s.toFixed(2)).join(' ')} s`);
  figure('fleet.recovery_default_p99', `${p99.toFixed(2)} s`, '<= 3 s', p99 <= 3);

  const options = { livenessLock: false, heartbeat: '1s', ttl: '3s', maintenance: '1s' };
  const byHeartbeat = await kills(fixture, quick ? 3 : 30, options, alive(''));
  const worst = percentile(byHeartbeat, 0.99);
  say(`by heartbeat alone: ${byHeartbeat.map((s) => s.toFixed(2)).join(' ')} s`);
  figure('fleet.recovery_heartbeat_p99', `${worst.toFixed(2)} s`, '<= 5 s', worst <= 5);
}
