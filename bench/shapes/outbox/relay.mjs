// A relay as a user starts it. It tells how many acknowledgements it has, and with `each` when each of them came.
import { holdfast } from '../../../packages/holdfast/dist/index.js';
import { outbox, relay } from '../../../packages/holdfast/dist/outbox.js';
import { SINKS } from '../../../test/brokers/clients.mjs';
import { now } from '../../workflows/clock.mjs';

const { url, port, each, concurrency } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url, log: 'warn' });
const { sink } = await SINKS.nats(port);
let [count, told, at, acks] = [0, 0, 0, []];
const flush = () => {
  if (count > told) process.send({ kind: 'acks', count, at, acks });
  told = count;
  acks = [];
};
setInterval(flush, 50);
const watched = {
  ...sink,
  async publish(message, options) {
    const accepted = await sink.publish(message, options);
    count++;
    at = now();
    if (each) acks.push([message.messageId, at]);
    return accepted;
  },
};
const worker = hf.worker({ handleSignals: false, concurrency });
relay(worker, outbox(hf), watched);
process.once('disconnect', () => process.exit(1));
process.once('message', () => {
  worker.run();
  process.send({ kind: 'started' });
});
process.send({ kind: 'ready' });
