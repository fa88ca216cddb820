/**
 * A worker as a user writes one, from the package by its name: it runs as it is, and bundled into one file. Each
 * event is a line of JSON on stdout. Its handler waits until stdin says `finish`; `kill-thread` ends the thread of
 * the keeper.
 */
import { createInterface } from 'node:readline';
import { holdfast, job } from 'holdfast';

const tell = (event) => console.log(JSON.stringify(event));
const log = () => undefined;
const hf = holdfast({
  connectionString: process.env.DATABASE_URL,
  logger: { debug: log, info: log, warn: log, error: log },
});

const threads = [];
process.on('worker', (thread) => threads.push(thread));

const worker = hf.worker({
  ...{ lease: 3_000, heartbeat: 500, ttl: 10_000, poll: 100 },
  onEvent({ kind, what, error }) {
    tell({ kind, ...(error && { what, message: error.message }) });
  },
});
const waiting = [];
let finished = false;
worker.handle(job('wait'), () => finished || new Promise((resolve) => waiting.push(resolve)));

const commands = {
  finish() {
    finished = true;
    for (const resolve of waiting) resolve();
  },
  'kill-thread': () => threads.at(-1).terminate(),
};
const input = createInterface({ input: process.stdin });
input.on('line', (line) => commands[line]());

// Without await at the top: a bundle in CommonJS has none.
worker
  .run()
  .catch((error) => tell({ kind: 'rejected', code: error.code, message: error.message }))
  .then(() => hf.close())
  .then(() => input.close());
