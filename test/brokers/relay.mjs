// A relay in a process of its own, to be frozen. `late`: the first message of each key is held inside of the sink until the
// parent says `go`, and is sent then, whatever became of its lease. `down`: the sink takes nothing until then.
import { holdfast } from 'holdfast';
import { outbox, relay } from 'holdfast/outbox';
import { SINKS } from './clients.mjs';

const { url, queue, broker, port, how } = JSON.parse(process.argv[2]);
const none = () => undefined;
const logger = { debug: none, info: none, warn: none, error: none };
const hf = holdfast({ connectionString: url, logger });
const { sink } = await SINKS[broker](port);

let go = none;
let gone = false;
const told = new Promise((resolve) => {
  go = resolve;
});
let sent = 0;
const seen = new Set();
const held = {
  name: sink.name,
  async publish(message, options) {
    process.send({ kind: 'asked', key: message.key, n: message.data.n, gone });
    if (how === 'down' && !gone) throw new Error('down');
    if (how === 'late' && !seen.has(message.key)) {
      seen.add(message.key);
      process.send({ kind: 'held', key: message.key });
      await told;
    }
    const accepted = await sink.publish(message, options);
    process.send({ kind: 'sent', sent: ++sent, duplicate: accepted?.duplicate ?? false });
    return accepted;
  },
};
const worker = hf.worker({
  ...{ handleSignals: false, concurrency: 100, poll: 100 },
  ...{ lease: 3_000, renewEvery: 500, heartbeat: 300, ttl: 1_500, maintenance: 300 },
});
relay(worker, outbox(hf, { queue }), held, { maxPause: 100 });
process.on('message', () => {
  gone = true;
  go();
});
process.once('disconnect', () => process.exit(1));
await worker.run();
