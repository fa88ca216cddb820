// A worker process of a scene, started with `fork` and told its types by its one argument. It uses
// the public API only, and reports the start and the end of each job on the common clock.
import { holdfast, job } from '../../packages/holdfast/dist/index.js';
import { clock, wait } from '../clock.mjs';

const PARCEL_MS = 10;

const { url, options, types, counted } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url, log: 'error' });
const tell = (message) => process.connected && process.send(message);

/** Starts and ends go in parcels: a message each would weigh on what is measured. */
let parcel = [];
function note(event, type, n) {
  if (parcel.length === 0)
    setTimeout(() => {
      tell(
        counted ? { kind: 'count', count: parcel.length, at: clock() } : { kind: 'runs', parcel },
      );
      parcel = [];
    }, PARCEL_MS);
  parcel.push([event, type, n, clock()]);
}

/** A function cannot be sent: `key: true` stands for the key in the payload. */
function limitOf(limit) {
  if (!limit?.rate?.key) return limit;
  return { ...limit, rate: { ...limit.rate, key: ({ key }) => key } };
}

const worker = hf.worker({
  ...options,
  onEvent: ({ kind }) => kind === 'started' && tell({ kind: 'started' }),
});
for (const { type, limit, ...definition } of types)
  worker.handle(
    job(type, { ...definition, ...(limit && { limit: limitOf(limit) }) }),
    async ({ payload: { n, ms } }) => {
      note('start', type, n);
      if (ms === -1) await new Promise(() => {});
      if (ms > 0) await wait(ms);
      if (!counted) note('end', type, n);
    },
  );
worker.run().then(
  () => hf.close(),
  (error) => {
    tell({ kind: 'refused', message: error.message });
    process.exit(1);
  },
);
process.on('disconnect', () => process.exit());
