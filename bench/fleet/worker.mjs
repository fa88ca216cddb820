// A worker process for the measurements: started with `fork`, told what to do by its one argument.
import { holdfast, job } from '../../dist/index.js';
import { clock } from '../clock.mjs';

const { url, options } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url });
const tell = (message) => process.connected && process.send(message);

const worker = hf
  .worker(options)
  .handle(job('noop'), () => {})
  .handle(job('stamp'), ({ payload }) => tell({ kind: 'stamp', n: payload.n, at: clock() }))
  // Held by its first owner for ever, finished by the next.
  .handle(job('hold'), async (ctx) => {
    tell({ kind: 'held', id: ctx.id, generation: ctx.fenceToken, at: clock() });
    if (ctx.fenceToken === 1) await new Promise(() => {});
  });
worker.run().then(
  () => hf.close(),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
process.on('disconnect', () => process.exit());
tell({ kind: 'ready' });
