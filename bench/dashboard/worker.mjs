// A worker process with a handler that does nothing, which says how many jobs it has completed when it is asked.
import { holdfast, job } from '../../packages/holdfast/dist/index.js';

const hf = holdfast({ connectionString: process.argv[2], log: 'warn' });
const worker = hf.worker().handle(job('noop'), () => {});
process.on('message', () => process.send(worker.stats.completed));
process.on('disconnect', () => process.exit());
worker.run().then(
  () => hf.close(),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
