// Projections: how fast a read model is rebuilt, and how far behind the log it is, also beside a transaction that stays
// open. One process appends, another one projects. By itself:
// `node bench/shapes/projections.mjs [rebuild|lag|open] [seconds] [events a second]`; `open` is beside an open transaction only.
import { fork } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { holdfast } from 'holdfast';
import { projections as admin, eventLog } from 'holdfast/projections';
import pg from 'pg';

const GOAL = { rebuildPerSecond: 20_000, lagMs: 100 };
const RATE = 1_000;
const KEYS = 1_000;

/** A process that projects, until `end`. */
async function projector(url) {
  const path = fileURLToPath(new URL('./projector.mjs', import.meta.url));
  const child = fork(path, [url], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const [said] = await Promise.race([
    new Promise((resolve) => child.once('message', (word) => resolve([word]))),
    new Promise((_, reject) => child.once('exit', (code) => reject(new Error(`exit ${code}`)))),
  ]);
  if (said !== 'ready') throw new Error(`the projector said ${said}`);
  const over = new Promise((resolve) => child.once('exit', resolve));
  return {
    end() {
      child.kill('SIGTERM');
      return over;
    },
  };
}

async function prepared(url) {
  const hf = holdfast({ connectionString: url, log: 'error' });
  await hf.migrate();
  const pool = new pg.Pool({ connectionString: url, max: 12 });
  return { hf, pool, log: eventLog(hf, 'bench') };
}

/** Events a second from the first look at a full log until all are in the read model. */
export async function rebuildRate(url, events) {
  const { hf, pool } = await prepared(url);
  await pool.query(
    `INSERT INTO holdfast.event_log (stream, id, bucket, key, type, data)
     SELECT 'bench', gen_random_uuid(), b.bucket, b.key, 'paid', jsonb_build_object('cents', n, 'note', repeat('x', 100))
     FROM generate_series(1, $1::integer) AS n
     JOIN (SELECT k, concat('key:', k) AS key, holdfast.bucket_of(concat('key:', k)) AS bucket
       FROM generate_series(0, $2::integer - 1) AS k) AS b ON b.k = n % $2::integer
     ORDER BY n`,
    [events, KEYS],
  );
  await pool.query('VACUUM ANALYZE holdfast.event_log');
  await pool.query('CHECKPOINT');
  const from = performance.now();
  const child = await projector(url);
  for (;;) {
    const [row] = (
      await pool.query(
        'SELECT coalesce(sum(applied), 0)::integer AS n FROM holdfast.projection_cursors',
      )
    ).rows;
    if (row.n >= events) break;
    await sleep(50);
  }
  const seconds = (performance.now() - from) / 1_000;
  const [sums] = (await pool.query(`SELECT sum(events)::integer AS n FROM bench_model.totals`))
    .rows;
  if (sums.n !== events) throw new Error(`${sums.n} events in the read model instead of ${events}`);
  await child.end();
  await pool.end();
  await hf.close();
  return { perSecond: events / seconds, seconds };
}

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];

/** From the commit of an event, as its producer hears of it, to the statement that has it in the read model. */
export async function lag(url, { seconds, openTransaction, rate = RATE }) {
  const { hf, pool, log } = await prepared(url);
  const child = await projector(url);
  const open = await pool.connect();
  if (openTransaction) {
    await open.query('BEGIN');
    await log.append([{ type: 'paid', key: 'open', data: { cents: 1 } }], { tx: open });
  }
  const committed = new Map();
  const flights = new Set();
  const from = performance.now();
  for (let n = 0; n < rate * seconds; n++) {
    const dueMs = (n / rate) * 1_000 - (performance.now() - from);
    if (dueMs > 1) await sleep(dueMs);
    const flight = log
      .append([{ type: 'paid', key: `key:${n % KEYS}`, data: { cents: n } }])
      .then(([id]) => committed.set(id, performance.timeOrigin + performance.now()));
    flights.add(flight);
    flight.finally(() => flights.delete(flight));
  }
  await Promise.all(flights);
  const took = (performance.now() - from) / 1_000;
  while ((await admin(hf).list()).some(({ events }) => events > 0)) await sleep(50);
  const { rows } = await pool.query(
    `SELECT id::text, extract(epoch FROM applied_at)::float8 * 1000 AS at FROM bench_model.applied`,
  );
  if (openTransaction) await open.query('COMMIT');
  open.release();
  const warm = performance.timeOrigin + from + 2_000;
  const lags = rows
    .filter(({ id }) => committed.get(id) > warm)
    .map(({ id, at }) => Math.max(0, at - committed.get(id)))
    .sort((a, b) => a - b);
  await child.end();
  await pool.end();
  await hf.close();
  if (rows.length < committed.size) throw new Error(`${rows.length} of ${committed.size} applied`);
  return {
    perSecond: committed.size / took,
    p50: quantile(lags, 0.5),
    p99: quantile(lags, 0.99),
    max: lags.at(-1),
  };
}

const nameOf = (openTransaction) =>
  `shapes.projections.lag${openTransaction ? '_beside_open_transaction' : ''}`;

/** A part of `npm run bench -- shapes`. `fresh` makes an empty database and returns its URL. */
export async function run({ fresh, size, figure, fact, say, options = {} }) {
  say('projections: rebuild …');
  const rebuilt = await rebuildRate(await fresh(), size(400_000, 100_000));
  figure(
    'shapes.projections.rebuild_per_second',
    Math.round(rebuilt.perSecond).toLocaleString('en'),
    `>= ${GOAL.rebuildPerSecond.toLocaleString('en')}`,
    rebuilt.perSecond >= GOAL.rebuildPerSecond,
  );
  for (const openTransaction of [false, true]) {
    say(`projections: lag${openTransaction ? ' beside an open transaction' : ''} …`);
    const seconds = options.minutes ? options.minutes * 60 : size(openTransaction ? 600 : 60, 10);
    const rate = options.rates?.[0] ?? RATE;
    const found = await lag(await fresh(), { seconds, openTransaction, rate });
    fact(`${nameOf(openTransaction)}_seconds`, seconds);
    const name = nameOf(openTransaction);
    fact(`${name}_events_per_second`, Math.round(found.perSecond));
    fact(`${name}_p50_ms`, found.p50.toFixed(0));
    figure(`${name}_p99_ms`, found.p99.toFixed(0), `<= ${GOAL.lagMs}`, found.p99 <= GOAL.lagMs);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { startEmbedded } = await import('@holdfast/embedded');
  const [part = 'all', seconds = '15', rate = String(RATE)] = process.argv.slice(2);
  const server = await startEmbedded({ throwaway: true });
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  let made = 0;
  const fresh = async () => {
    const name = `shapes_${++made}`;
    await client.query(`CREATE DATABASE ${name}`);
    const url = new URL(server.url);
    url.pathname = `/${name}`;
    return url.toString();
  };
  const print = (name, found) => console.log(name, JSON.stringify(found));
  if (part === 'all' || part === 'rebuild')
    print('rebuild', await rebuildRate(await fresh(), 200_000));
  if (part !== 'rebuild')
    for (const openTransaction of part === 'open' ? [true] : [false, true])
      print(
        openTransaction ? 'lag beside an open transaction' : 'lag',
        await lag(await fresh(), { seconds: Number(seconds), openTransaction, rate: Number(rate) }),
      );
  await client.end();
  await server.stop();
}
