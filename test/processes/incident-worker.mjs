/**
 * A worker process for test/incidents, by the least privileged role. Types have the name of what they do; `config.types`
 * says which of them this release handles, `config.broken` that it throws in every handler.
 */
import { holdfast, job } from './product.mjs';

const { url, options, types, queues = ['inbox'], broken = false } = JSON.parse(process.argv[2]);
const silent = { debug() {}, info() {}, warn() {}, error() {} };

const handlers = {
  work: () => undefined,
  /** Never ends, and ends when it is told to. */
  hang: ({ signal }) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
    }),
  /** Never ends, whatever it is told. */
  leak: () => new Promise(() => {}),
  refuse: () => {
    throw new Error('the bank refuses');
  },
  boom: () => process.abort(),
};

const hf = holdfast({ connectionString: url, logger: silent });
const worker = hf.worker({
  ...options,
  onEvent(event) {
    if (event.kind === 'started' || event.kind === 'reregistered')
      process.send?.({ kind: event.kind, workerId: event.workerId });
  },
});
for (const queue of queues)
  for (const type of types) {
    const definition = job(queue === 'inbox' ? type : `${type}_${queue}`, {
      queue,
      ...(type === 'leak' && { timeout: '1s' }),
    });
    worker.handle(definition, (context) => {
      if (broken) throw new Error('Cannot read properties of undefined (reading "total")');
      return handlers[type](context);
    });
  }
process.on('SIGTERM', () => void worker.stop());
await worker.run();
await hf.close();
process.disconnect?.();
