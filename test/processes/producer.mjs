/**
 * A producer process for the crash tests: it enqueues until it is told to stop, one job at a time and
 * several in one call by turns. After an error it tries the same keys again until they are accepted.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { holdfast, job } from '../../dist/index.js';

const { url, name, type } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url });
const work = job(type);
let stopping = false;
let errors = 0;

process.on('message', () => {
  stopping = true;
});
process.on('disconnect', () => process.exit(0));

for (let turn = 0; !stopping; turn++) {
  const keys = [0, 1, 2].slice(turn % 2 ? 0 : 2).map((place) => `${name}:${turn}:${place}`);
  const items = keys.map((key) => work.of({ ms: 2 }, { idempotencyKey: key }));
  for (;;) {
    try {
      if (items.length === 1) await hf.enqueue(work, { ms: 2 }, { idempotencyKey: keys[0] });
      else await hf.enqueueMany(items);
      break;
    } catch (error) {
      errors++;
      process.send({ kind: 'trouble', message: error.message, code: error.code });
      await sleep(20);
    }
  }
  process.send({ kind: 'accepted', keys });
}
process.send({ kind: 'done', errors });
await hf.close();
process.disconnect();
