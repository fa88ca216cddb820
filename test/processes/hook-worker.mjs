/**
 * A worker process whose jobs die and tell of it, for test/dead-letters. `doomed` waits for the parent's word and throws,
 * `broken` throws at once. With `tells` it handles what is told, and writes whom it was told of.
 */
import { holdfast, job } from './product.mjs';

const { url, options, tells } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url });

function tell(message) {
  if (process.connected) process.send(message);
}

let finish;
const told = new Promise((resolve) => {
  finish = resolve;
});

const worker = hf.worker({
  ...options,
  onEvent(event) {
    if (event.kind === 'started' || event.kind === 'error') tell({ kind: event.kind });
  },
});

const teller = job('tell');
const dies = { maxAttempts: 1, onDeadLetter: teller };
worker.handle(job('doomed', dies), async ({ id }) => {
  tell({ kind: 'handling', id });
  await told;
  throw new Error('It was told to.');
});
worker.handle(job('broken', dies), () => {
  throw new Error('It is broken.');
});
if (tells)
  worker.handle(teller, (ctx) =>
    ctx.transaction((tx) => tx.query('INSERT INTO told VALUES ($1)', [ctx.payload.id])),
  );

process.on('message', (message) => {
  if (message.do === 'finish') finish();
});
process.channel?.unref();

await worker.run();
await hf.close();
