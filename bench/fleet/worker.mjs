// A worker process for the measurements: started with `fork`, told what to do by its one argument.
import { holdfast, job } from '../../packages/holdfast/dist/index.js';
import { clock, wait } from '../clock.mjs';

const PARCEL_MS = 10;

const { url, options, queues } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url, log: 'warn' });
const tell = (message) => process.connected && process.send(message);

/** Starts and ends of tasks go in parcels: a message each would weigh on what is measured. */
let parcel = [];
function note(event, n) {
  if (parcel.length === 0)
    setTimeout(() => {
      tell({ kind: 'tasks', events: parcel });
      parcel = [];
    }, PARCEL_MS);
  parcel.push([event, n, clock()]);
}

const worker = hf
  .worker({ ...options, onEvent: ({ kind }) => kind === 'started' && tell({ kind: 'started' }) })
  .handle(job('noop'), () => {})
  .handle(job('stamp'), ({ payload }) => tell({ kind: 'stamp', n: payload.n, at: clock() }))
  .handle(job('task'), async ({ payload: { n, ms } }) => {
    note('start', n);
    if (ms > 0) await wait(ms);
    note('end', n);
  })
  // Held by its first owner for ever, finished by the next.
  .handle(job('hold'), async (ctx) => {
    tell({ kind: 'held', id: ctx.id, generation: ctx.fenceToken, at: clock() });
    if (ctx.fenceToken === 1) await new Promise(() => {});
  });
for (const queue of queues) worker.handle(job(`noop_${queue}`, { queue }), () => {});
worker.run().then(
  () => hf.close(),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
process.on('disconnect', () => process.exit());
tell({ kind: 'ready' });
