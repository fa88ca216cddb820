// Holdfast with its defaults, through its public API.
import { holdfast as connect, job, workflow } from '../../../packages/holdfast/dist/index.js';
import { now } from '../clock.mjs';

const definitions = {
  steps: workflow('steps'),
  first: workflow('first'),
  signalled: workflow('signalled'),
  ticking: workflow('ticking'),
  long: workflow('long'),
  fan: workflow('fan'),
};
const child = job('child');
const plain = job('plain');

/** What the workflows do; `tell` goes to the process that measures. */
const bodies = (tell) => ({
  async steps(flow, { count, value }) {
    const from = now();
    for (let n = 0; n < count; n++) await flow.step(`step ${n}`, () => value);
    tell({ kind: 'ended', from, to: now() });
  },
  async first(flow) {
    await flow.step('first', () => tell({ kind: 'step', at: now() }));
  },
  async signalled(flow) {
    await flow.step('ready', () => tell({ kind: 'ready' }));
    await flow.wait('wait', 'go');
    await flow.step('next', () => tell({ kind: 'step', at: now() }));
  },
  async ticking(flow, { count }) {
    for (let n = 0; n < count; n++)
      await flow.step(`tick ${n}`, async () => {
        tell({ kind: 'step', run: flow.id, pid: process.pid, at: now() });
        await new Promise((resolve) => setTimeout(resolve, 20));
      });
    tell({ kind: 'ended', run: flow.id });
  },
  async long(flow, { count }) {
    for (let n = 0; n < count; n += 100)
      await Promise.all(
        Array.from({ length: 100 }, (_, m) => flow.step(`step ${n + m}`, () => n + m)),
      );
    await flow.step('ready', () => tell({ kind: 'ready' }));
    for (let n = 0; ; n++) {
      await flow.wait(`wait ${n}`, 'go');
      await flow.step(`next ${n}`, () => tell({ kind: 'step', at: now() }));
    }
  },
  async fan(flow, { count }) {
    const inputs = Array.from({ length: count }, (_, n) => ({ n }));
    await flow.children('all', child, inputs);
    tell({ kind: 'ended', to: now() });
  },
});

export const system = {
  name: 'holdfast',
  package: null,
  schema: 'holdfast',
  /** What a step leaves. */
  tables: ['inbox_steps'],

  async prepare(url) {
    const hf = connect({ connectionString: url });
    await hf.migrate();
    await hf.close();
  },

  async client(url) {
    const hf = connect({ connectionString: url });
    return {
      hf,
      start: async (name, input = {}) => (await hf.enqueue(definitions[name], input)).id,
      signal: (id, name) => hf.signal(definitions[name], id, 'go', null),
      plain: (count) => hf.enqueueMany(Array.from({ length: count }, (_, n) => plain.item({ n }))),
      close: () => hf.close(),
    };
  },

  async worker(url, tell, { concurrency }) {
    const hf = connect({ connectionString: url, log: 'error' });
    let ready = () => {};
    const started = new Promise((resolve) => {
      ready = resolve;
    });
    const onEvent = ({ kind }) => kind === 'started' && ready();
    const worker = hf.worker({
      handleSignals: false,
      onEvent,
      ...(concurrency && { concurrency }),
    });
    const all = bodies(tell);
    for (const [name, definition] of Object.entries(definitions))
      worker.workflow(definition, all[name]);
    let done = 0;
    worker.handle(child, () => null);
    worker.handle(plain, () => {
      done++;
      if (done % 100 === 0) tell({ kind: 'plain', at: now() });
    });
    const running = worker.run();
    await Promise.race([started, running]);
  },
};
