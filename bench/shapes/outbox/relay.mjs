// A relay as a user starts it, and what it tells of each acknowledgement.
import { holdfast } from '../../../packages/holdfast/dist/index.js';
import { outbox, relay } from '../../../packages/holdfast/dist/outbox.js';
import { SINKS } from '../../../test/brokers/clients.mjs';
import { now } from '../../workflows/clock.mjs';

const { url, port } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url, log: 'warn' });
const { sink } = await SINKS.nats(port);
let acks = [];
const flush = () => {
  if (acks.length > 0) process.send({ kind: 'acks', acks });
  acks = [];
};
setInterval(flush, 50);
const told = {
  ...sink,
  async publish(message, options) {
    const accepted = await sink.publish(message, options);
    acks.push([message.messageId, now()]);
    return accepted;
  },
};
const worker = hf.worker({ handleSignals: false, concurrency: 500 });
relay(worker, outbox(hf), told);
process.once('disconnect', () => process.exit(1));
process.once('message', () => {
  worker.run();
  process.send({ kind: 'started' });
});
process.send({ kind: 'ready' });
