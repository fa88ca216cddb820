/**
 * A process with several producers, each on a connection of its own. At each word they enqueue under one unique key, all
 * at the same time, each in a transaction of its own; and it says which jobs stand then.
 */
import pg from 'pg';
import { holdfast, job } from './product.mjs';

const { url, producers } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url });
const step = job('step');
const clients = await Promise.all(
  Array.from({ length: producers }, async () => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    return client;
  }),
);

async function produce(client, unique) {
  await client.query('BEGIN');
  const one = await hf.enqueue(step, { pid: process.pid }, { tx: client, unique });
  await client.query('COMMIT');
  return one;
}

process.on('message', async ({ id: round, unique }) => {
  try {
    const made = await Promise.all(clients.map((client) => produce(client, unique)));
    const fresh = made.filter(({ deduplicated }) => !deduplicated).length;
    process.send({ kind: 'made', id: round, keys: made.map(({ id }) => id), fresh });
  } catch (error) {
    process.send({ kind: 'error', id: round, message: error.message, code: error.code });
  }
});
process.on('disconnect', () => process.exit(0));
process.send({ kind: 'ready' });
