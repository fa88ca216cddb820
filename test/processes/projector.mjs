/** A process that projects the orders' log, for tests that kill and freeze it. */
import { holdfast } from '../../packages/holdfast/dist/index.js';
import { eventLog, project, projection } from '../../packages/holdfast/dist/projections.js';

const { url, options, create, add } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url, log: 'silent' });
const totals = projection('order_totals', {
  log: eventLog(hf, 'orders'),
  shards: 4,
  page: 20,
  create: (tx) => tx.query(create),
  on: { 'order.paid': (event, tx) => tx.query(add, [event.key, event.data.cents]) },
});
const worker = hf.worker({
  ...options,
  onEvent: (event) => {
    if (event.kind === 'started' && process.connected)
      process.send({ kind: 'ready', workerId: event.workerId });
  },
});
await project(worker, [totals]);
await worker.run();
await hf.close();
