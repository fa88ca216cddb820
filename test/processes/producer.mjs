/**
 * A producer process for the crash tests: it enqueues until it is told to stop, by turns one guarded job
 * and several plain ones in one call, with a pause of `everyMs` in between. After an error it tries the same keys again
 * until they are accepted.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { holdfast, job } from './product.mjs';

const { url, name, everyMs = 0 } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url });
const guarded = job('guarded');
const plain = job('noop');
let stopping = false;
let errors = 0;

process.on('message', () => {
  stopping = true;
});
process.on('disconnect', () => process.exit(0));

for (let turn = 0; !stopping; turn++) {
  const many = turn % 2 === 1;
  const keys = many ? [0, 1, 2].map((place) => `${name}:${turn}:${place}`) : [`${name}:${turn}`];
  for (;;) {
    try {
      if (many) await hf.enqueueMany(keys.map((key) => plain.item({}, { idempotencyKey: key })));
      else await hf.enqueue(guarded, { ms: 2 }, { idempotencyKey: keys[0] });
      break;
    } catch (error) {
      errors++;
      process.send({ kind: 'error', message: error.message, code: error.code });
      await sleep(20);
    }
  }
  process.send({ kind: 'accepted', keys });
  if (everyMs > 0) await sleep(everyMs);
}
process.send({ kind: 'done', errors });
await hf.close();
process.disconnect();
