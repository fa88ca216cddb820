// Connections that enqueue one job after the other, each in a commit of its own, until the parent is gone.
// Asked for it, they tell how many commits there have been, and when that was.
import pg from 'pg';
import { holdfast, job } from '../../packages/holdfast/dist/index.js';

const { url, connections } = JSON.parse(process.argv[2]);
const pool = new pg.Pool({ connectionString: url, max: connections });
const hf = holdfast({ connectionString: url, pool });
const noop = job('noop');
let [commits, n, over] = [0, 0, false];

async function produce() {
  while (!over) {
    await hf.enqueue(noop, { n }, { partitionKey: `order:${n++ % 10_000}` });
    commits++;
  }
}

process.on('message', () => process.send({ commits, at: performance.now() }));
process.on('disconnect', () => {
  over = true;
});
await Promise.all(Array.from({ length: connections }, produce));
await hf.close();
await pool.end();
