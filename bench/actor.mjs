// A process that works or produces for one system in one configuration, told what to do over its
// channel. It lives for a whole part, so that repetitions meet warm code, and ends with the process
// that started it.
import { clock } from './clock.mjs';
import { produce } from './producing.mjs';
import { offerSteadily } from './steady/offer.mjs';
import { loadSystem } from './systems/index.mjs';
import { Tally } from './tally.mjs';

const { name, configuration, url } = JSON.parse(process.argv[2]);
const system = await loadSystem(name);
let workers = [];
let producer = null;
const tally = new Tally((message) => process.connected && process.send(message));

const handlers = {
  noop: () => {},
  /** As a call to another service would: it waits and uses no processor. */
  millisecond: () => new Promise((resolve) => setTimeout(resolve, 1)),
  /** Held for ever, so that it is in flight when its process is killed. */
  hold: () => new Promise(() => {}),
};

const commands = {
  async work({ handler = 'noop', count = 1, markEvery = 1_000, stamps = false, ...options }) {
    const run = handlers[handler];
    tally.start(markEvery);
    const handle = (payload) => {
      tally.add(stamps ? payload : null);
      return run();
    };
    const target = options.url ?? url;
    const start = () => system.worker(target, { configuration, ...options, handle });
    workers = await Promise.all(Array.from({ length: count }, start));
  },
  async stop() {
    const stopping = workers;
    workers = [];
    await Promise.all(stopping.map((worker) => worker.stop()));
    tally.stop();
  },
  produce: (order) => produce(system, configuration, order.url ?? url, order),
  /** Ahead of time, for an offer that begins at a given moment; it ends with the process. */
  async connect(order) {
    producer = await system.producer(url, { configuration, ...order });
  },
  offer: (order) => offerSteadily(producer, order),
  async usage() {
    const { user, system: kernel } = process.cpuUsage();
    return { cpuMs: (user + kernel) / 1000, rss: process.memoryUsage().rss, at: clock() };
  },
};

process.on('message', async ({ id, command, ...order }) => {
  try {
    process.send({ id, result: await commands[command](order) });
  } catch (error) {
    if (process.connected) process.send({ id, error: error.stack ?? String(error) });
  }
});
process.on('disconnect', () => process.exit());
process.on('SIGINT', () => {});
process.on('unhandledRejection', (error) => console.error(`${name}:`, error));
process.send({ kind: 'ready' });
