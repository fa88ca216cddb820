// Webhooks in: signed events over HTTP, each answered after its commit. The server is a process of its own; the senders, this
// process, it and Postgres share the machine. Every answer with 2xx is looked for in the queue afterwards.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { measured, median, percentile, plain } from '../statistics.mjs';
import { SECRET, send } from './receiving/sender.mjs';

const SERVER = fileURLToPath(new URL('./receiving/server.mjs', import.meta.url));
const CONNECTIONS = 64;

async function round(url, { forMs, rows }) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query('CREATE TABLE IF NOT EXISTS bench_events (id text PRIMARY KEY)');
  const child = fork(SERVER, [JSON.stringify({ url, secret: SECRET, rows })]);
  try {
    const [{ port }] = await once(child, 'message');
    const prefix = `evt_${Date.now()}`;
    await send(port, { connections: CONNECTIONS, forMs: 1_000, prefix: `${prefix}_warm` });
    const began = performance.now();
    const found = await send(port, { connections: CONNECTIONS, forMs, prefix });
    const seconds = (performance.now() - began) / 1_000;
    const { rows: there } = await client.query(
      `SELECT count(*)::int AS n FROM holdfast.inbox WHERE payload->>'id' LIKE $1`,
      [`${prefix}_%`],
    );
    const { rows: warm } = await client.query(
      `SELECT count(*)::int AS n FROM holdfast.inbox WHERE payload->>'id' LIKE $1`,
      [`${prefix}_warm%`],
    );
    return {
      rate: found.good / seconds,
      p50: median(found.ms),
      p99: percentile(found.ms, 0.99),
      bad: found.bad,
      missing: found.good - (there[0].n - warm[0].n),
    };
  } finally {
    child.kill('SIGKILL');
    await client.end();
  }
}

/** Answers per second with a commit of a job each, and beside it with a row of the program in the same commit. */
export async function run({ fresh, rounds, size, figure, fact }) {
  const forMs = size(8_000, 2_000);
  for (const rows of [false, true]) {
    const name = rows ? 'shapes.receive_with_rows' : 'shapes.receive';
    const found = [];
    for (let n = 0; n < rounds(3, 1); n++) found.push(await round(await fresh(), { forMs, rows }));
    const of = (key) => found.map((one) => one[key]);
    fact(`${name}_p50_ms`, measured(of('p50')));
    fact(`${name}_p99_ms`, measured(of('p99')));
    const lost = of('missing').reduce((sum, n) => sum + Math.abs(n), 0);
    const bad = of('bad').reduce((sum, n) => sum + n, 0);
    figure(`${name}_answers_without_a_job`, plain(lost), '0', lost === 0);
    figure(`${name}_refused`, plain(bad), '0', bad === 0);
    if (rows) fact(`${name}_per_s`, measured(of('rate')));
    else figure(`${name}_per_s`, measured(of('rate')), '>= 2,000', median(of('rate')) >= 2_000);
  }
}

/** `node bench/shapes/receive.mjs`: by itself, on a Postgres of its own with fsync on. */
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { startEmbedded } = await import('../../packages/embedded/dist/index.js');
  const server = await startEmbedded({ throwaway: true });
  const admin = new pg.Client({ connectionString: server.url });
  await admin.connect();
  let n = 0;
  const fresh = async () => {
    const name = `receive_${n++}`;
    await admin.query(`CREATE DATABASE ${name}`);
    const url = new URL(server.url);
    url.pathname = `/${name}`;
    return url.href;
  };
  const quick = process.argv.includes('--quick');
  const size = (full, small) => (quick ? small : full);
  await run({
    ...{ fresh, size, rounds: size },
    figure: (name, value, goal, met) => console.log(name, value, goal, met ? 'met' : 'SHORT'),
    fact: (name, value) => console.log(name, value),
  });
  await admin.end();
  await server.stop();
}
