// Webhooks out: how many signed ones a second a worker sends to an endpoint that answers after 5 ms, and what one endpoint
// that never answers costs the ninety-nine others. The receivers are a process of their own; everything shares the machine.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { holdfast } from '../../packages/holdfast/dist/index.js';
import { webhooks } from '../../packages/holdfast/dist/webhooks.js';
import { measured, median, percentile } from '../statistics.mjs';
import { now } from '../workflows/clock.mjs';
import { barePosts } from './bare-posts.mjs';

const RECEIVER = fileURLToPath(new URL('./receiver.mjs', import.meta.url));
const quiet = {
  debug() {},
  info() {},
  warn() {},
  error: (facts, text) => console.error(text, facts),
};

async function startReceivers() {
  const child = fork(RECEIVER, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const next = (kind) =>
    new Promise((resolve) => {
      child.on('message', function listen(message) {
        if (message.kind !== kind) return;
        child.off('message', listen);
        resolve(message);
      });
    });
  await next('up');
  const ask = async (message, kind) => {
    const answer = next(kind);
    child.send(message);
    return answer;
  };
  return {
    ports: async (delays) => (await ask({ kind: 'serve', delays }, 'ports')).ports,
    /** Resolves to a promise of the moment in which so many have come, with how long each took. */
    async expect(wanted) {
      const all = next('all');
      await ask({ kind: 'wait', wanted }, 'waits');
      return { all };
    },
    stop: () => child.kill(),
  };
}

async function openHooks(url, concurrency) {
  const hf = holdfast({ connectionString: url, logger: quiet });
  await hf.migrate();
  const queue = `hooks_${Math.random().toString(36).slice(2, 8)}`;
  const hooks = webhooks(hf, { queue, allow: ['127.0.0.0/8'], allowHttp: true });
  await hooks.create();
  const worker = hooks.deliver(hf.worker({ concurrency, handleSignals: false }));
  return { hf, hooks, worker };
}

async function sendAll(hooks, messages) {
  for (let from = 0; from < messages.length; from += 500)
    await Promise.all(messages.slice(from, from + 500).map((one) => hooks.send(one)));
}

/** A backlog to endpoints that answer after 5 ms, drained: how many a second, and what each costs the worker's process. */
async function throughput({ url, receivers, count, endpoints, concurrency }) {
  const { hf, hooks, worker } = await openHooks(url, 200);
  const ports = await receivers.ports(Array.from({ length: endpoints }, () => 5));
  for (const port of ports)
    await hooks.endpoints.create({
      tenant: `t${port}`,
      url: `http://127.0.0.1:${port}/`,
      concurrency,
    });
  const messages = Array.from({ length: count }, (_, n) => ({
    ...{ tenant: `t${ports[n % endpoints]}`, type: 'order.paid' },
    data: { at: now(), orderId: n, text: 'x'.repeat(200) },
  }));
  await sendAll(hooks, messages);
  const { all } = await receivers.expect(count);
  const began = now();
  const before = process.cpuUsage();
  const running = worker.run();
  const { at } = await all;
  const { user, system } = process.cpuUsage(before);
  await worker.stop();
  await running;
  await hf.close();
  return { perSecond: (count / (at - began)) * 1_000, costUs: (user + system) / count };
}

/** A steady stream to a hundred endpoints, of which one may hang: how long the others' messages took, at the 99th part. */
async function others({ url, receivers, seconds, rate, hangs }) {
  const { hf, hooks, worker } = await openHooks(url, 100);
  const ports = await receivers.ports(
    Array.from({ length: 100 }, (_, n) => (hangs && n === 0 ? null : 5)),
  );
  for (const port of ports)
    await hooks.endpoints.create({ tenant: `t${port}`, url: `http://127.0.0.1:${port}/` });
  const running = worker.run();
  // The worker is up, and the connections are open: otherwise the last part would be those that waited for that.
  const warm = await receivers.expect(99);
  await sendAll(
    hooks,
    ports.slice(1).map((port) => ({ tenant: `t${port}`, type: 'warm', data: { at: now() } })),
  );
  await warm.all;
  const wanted = Math.floor(seconds * rate * 0.99);
  const { all } = await receivers.expect(wanted);
  const began = now();
  for (let n = 0; n < seconds * rate; n++) {
    const due = began + (n * 1_000) / rate;
    if (due > now()) await new Promise((resolve) => setTimeout(resolve, due - now()));
    // Both runs send to the same ninety-nine; the first gets as many as each of them.
    const message = { tenant: `t${ports[n % 100]}`, type: 'order.paid', data: { at: now() } };
    if (n % 100 === 0 && !hangs) continue;
    void hooks.send(message);
  }
  const { delays } = await all;
  await worker.stop({ grace: 0 });
  await running;
  await hf.close();
  return percentile(delays, 0.99);
}

export async function run({ fresh, size, rounds, figure, fact, say }) {
  const receivers = await startReceivers();
  try {
    const [bare, one, many, cost, alone, beside] = [[], [], [], [], [], []];
    const count = size(10_000, 2_000);
    for (let round = 0; round < rounds(3, 1); round++) {
      const drained = async (endpoints, concurrency) =>
        throughput({ url: await fresh(), receivers, count, endpoints, concurrency });
      const [port] = await receivers.ports([5]);
      bare.push(await barePosts(port, { count, atOnce: 100 }));
      const toOne = await drained(1, 100);
      one.push(toOne.perSecond);
      cost.push(toOne.costUs);
      many.push((await drained(100, 5)).perSecond);
      const stream = { receivers, seconds: size(15, 4), rate: 300 };
      alone.push(await others({ ...stream, url: await fresh(), hangs: false }));
      beside.push(await others({ ...stream, url: await fresh(), hangs: true }));
      say(
        `webhooks: ${[bare, one, cost, many, alone, beside].map((all) => Math.round(all.at(-1))).join(' ')}`,
      );
    }
    fact('shapes.webhooks_without_holdfast', `${measured(bare)} a second`);
    fact('shapes.webhooks_processor', `${measured(cost)} µs of the worker's process for each`);
    fact('shapes.webhooks_to_hundred_endpoints', `${measured(many)} a second`);
    fact('shapes.webhooks_p99_alone', `${measured(alone)} ms`);
    fact('shapes.webhooks_p99_beside_a_hanging_one', `${measured(beside)} ms`);
    figure('shapes.webhooks_to_one_endpoint', measured(one), '>= 1,500', median(one) >= 1_500);
    const ratio = median(beside) / median(alone);
    figure('shapes.webhooks_p99_beside_to_alone', ratio.toFixed(2), '<= 2', ratio <= 2);
  } finally {
    receivers.stop();
  }
}
