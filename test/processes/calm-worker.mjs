/**
 * A worker process for test/calm, as a user would start it: default options, unless the config has others.
 * A spare one starts when it is told to. It serves the queues of its config. Types have the name of what they do; in further queues the name of the
 * queue is put behind it.
 *
 * It notes what happens to each job, with the time, and sends the notes to the parent a few at a time: a
 * message for each would slow a flood of jobs down. `at` is of the monotonic clock that all processes of the
 * machine share, `wall` is of the clock that Postgres reads.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { holdfast, job } from './product.mjs';

const { url, options, queues = ['inbox'], spare = false } = JSON.parse(process.argv[2]);
const NOTED = new Set([
  'completed',
  'failed',
  'dead_letter',
  'released',
  'lost',
  'started',
  'reregistered',
]);

const notes = [];
let flushing = null;

function tell(message) {
  if (process.connected) process.send(message);
}

function note(what, { id, type, generation, workerId, ms }) {
  const at = Number(process.hrtime.bigint()) / 1e6;
  notes.push({ what, id, type, generation, workerId, ms, at, wall: Date.now() });
  flushing ??= setTimeout(flush, 5);
}

function flush() {
  clearTimeout(flushing);
  flushing = null;
  tell({ kind: 'notes', notes: notes.splice(0) });
}

/** The word that ends all held jobs. */
let finish;
const finished = new Promise((resolve) => {
  finish = resolve;
});

const handlers = {
  /** Takes `ms`; without it, it ends before the next one starts. */
  quick: ({ payload: { ms } }) => (ms === undefined ? undefined : sleep(ms)),
  /** Ends with the parent's word, or when its signal is aborted. */
  held: ({ signal }) =>
    Promise.race([
      finished,
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      }),
    ]),
  /** Fails at first; the payload says after how long it is to be tried again. */
  flaky({ attempt, payload: { retryMs } }) {
    if (attempt === 1) throw Object.assign(new Error('not yet'), { retryMs });
  },
  /** Takes its process along, after `ms` if it says so. */
  poison: ({ payload: { ms } }) =>
    ms === undefined ? process.abort() : sleep(ms).then(() => process.abort()),
};

const retry = ({ error }) => error.retryMs ?? 1_000;
const logger = { debug() {}, info() {}, error() {}, warn: heard };

/** The first thing that a worker does when it learns that it was declared dead is to say so. */
function heard({ worker }, message) {
  if (/declared dead/.test(message)) note('dead', { workerId: worker });
}

const hf = holdfast({ connectionString: url, logger });
const worker = hf.worker({
  ...options,
  onEvent(event) {
    if (NOTED.has(event.kind)) note(event.kind, event);
    if (event.kind === 'started') tell({ kind: 'started', workerId: event.workerId });
  },
});
for (const queue of queues) {
  for (const [name, handler] of Object.entries(handlers)) {
    const type = queue === queues[0] ? name : `${name}:${queue}`;
    worker.handle(job(type, { queue, retry }), (ctx) => {
      note('start', { id: ctx.id, type: name, generation: ctx.fenceToken });
      return handler(ctx);
    });
  }
}

let go;
const told = new Promise((resolve) => {
  go = resolve;
});
const commands = {
  finish: () => finish(),
  go: () => go(),
};
process.on('message', ({ do: command }) => commands[command]());
process.on('disconnect', () => process.exit(0));

if (spare) await told;
await worker.run();
flush();
await hf.close();
process.disconnect();
