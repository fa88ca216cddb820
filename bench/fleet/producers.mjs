// Fifty connections that enqueue one job after the other, each in a commit of its own.
import pg from 'pg';
import { holdfast, job } from '../../dist/index.js';

const { url, seconds, connections } = JSON.parse(process.argv[2]);
const pool = new pg.Pool({ connectionString: url, max: connections });
const hf = holdfast({ connectionString: url, pool });
const noop = job('noop');
let [commits, n, over] = [0, 0, false];

async function produce() {
  while (!over) {
    await hf.enqueue(noop, { n }, { key: `order:${n++ % 10_000}` });
    commits++;
  }
}

const all = Array.from({ length: connections }, produce);
// The first moments open the connections.
await new Promise((resolve) => setTimeout(resolve, 500));
const [before, from] = [commits, performance.now()];
await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
const perSecond = ((commits - before) / (performance.now() - from)) * 1_000;
over = true;
await Promise.all(all);
await hf.close();
await pool.end();
process.send({ perSecond });
process.disconnect();
