// What notifications cost producers, and how soon an idle fleet starts a job.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { setNotify } from '../../packages/holdfast/build/fleet/wake.js';
import { job } from '../../packages/holdfast/dist/index.js';
import { clock, wait } from '../clock.mjs';
import { INBOX } from '../fixture.mjs';
import { pairwise, percentile } from '../statistics.mjs';
import { startWorker, stopWorkers, until } from './processes.mjs';

const stamp = job('stamp');
/** Connections are opened, plans made, and the last switch forgotten. */
const SETTLE_MS = 500;
const PRODUCERS = fileURLToPath(new URL('./producers.mjs', import.meta.url));
const BARE_LISTENER = fileURLToPath(new URL('./bare-listener.mjs', import.meta.url));

/** Fifty producers of one process, at full speed until `stop`; `rate` measures their commits per second. */
function startProducers(url) {
  const child = fork(PRODUCERS, [JSON.stringify({ url, connections: 50 })]);
  const gone = new Promise((resolve) => child.once('exit', resolve));
  const count = () =>
    new Promise((resolve, reject) => {
      child.once('message', resolve);
      gone.then((code) => reject(new Error(`the producers ended with ${code}`)));
      child.send('count');
    });
  return {
    async rate(seconds) {
      const from = await count();
      await wait(seconds * 1_000);
      const to = await count();
      return ((to.commits - from.commits) / (to.at - from.at)) * 1_000;
    },
    stop() {
      child.disconnect();
      return gone;
    },
  };
}

const aliveWorkers = async (admin, count) =>
  (await admin.query("SELECT count(*)::int AS n FROM holdfast.workers WHERE status = 'alive'"))
    .rows[0].n >= count;

export async function producers({ fixture, quick, figure, say }) {
  const { admin, url } = fixture;
  await admin.query('TRUNCATE holdfast.inbox, holdfast.inbox_archive');
  for (let n = 0; n < 2; n++) startWorker(url, {});
  await until('two workers', () => aliveWorkers(admin, 2));
  const rates = { on: [], off: [] };
  const producers = startProducers(url);
  await wait(SETTLE_MS);
  for (let round = 0; round < (quick ? 3 : 15); round++) {
    for (const notify of round % 2 ? [true, false] : [false, true]) {
      await setNotify(admin, INBOX, notify);
      await wait(SETTLE_MS);
      rates[notify ? 'on' : 'off'].push(await producers.rate(quick ? 2 : 3));
    }
  }
  await producers.stop();
  await setNotify(admin, INBOX, true);
  await stopWorkers();
  await admin.query("UPDATE holdfast.workers SET status = 'dead' WHERE status <> 'dead'");
  for (const [name, all] of Object.entries(rates)) {
    say(`50 producers, notifications ${name}: ${all.map(Math.round).join(' ')} commits/s`);
  }
  const share = pairwise(rates.on, rates.off);
  figure(
    'fleet.producers_with_notifications',
    `${(share * 100).toFixed(0)}%`,
    '>= 90%',
    share >= 0.9,
  );
}

/** A row, a notification and an UPDATE in another process: what the machine needs for that alone. */
async function bareListener(url, admin, hear) {
  await admin.query('DROP TABLE IF EXISTS bare_jobs');
  await admin.query('CREATE TABLE bare_jobs (n integer PRIMARY KEY, taken_at timestamptz)');
  const child = fork(BARE_LISTENER, [JSON.stringify({ url })]);
  await new Promise((resolve) => child.once('message', resolve));
  child.on('message', hear);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const text = `WITH told AS (SELECT pg_notify('bare_jobs', $1::integer::text))
    INSERT INTO bare_jobs (n) SELECT $1::integer FROM told`;
  return {
    insert: (n) => client.query({ name: 'bare', text, values: [n] }),
    async stop() {
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.disconnect();
      await gone;
      await client.end();
      await admin.query('DROP TABLE bare_jobs');
    },
  };
}

export async function latency({ fixture, quick, figure, say }) {
  const { admin, hf, url } = fixture;
  await admin.query('TRUNCATE holdfast.inbox, holdfast.inbox_archive');
  const started = new Map();
  const hear = (message) => message.kind === 'stamp' && started.set(message.n, message.at);
  for (let n = 0; n < 3; n++) startWorker(url, {}, hear);
  await until('three workers', () => aliveWorkers(admin, 3));
  await wait(3_000);

  const bare = await bareListener(url, admin, hear);
  const [idle, least] = [[], []];
  for (let n = 0; n < (quick ? 100 : 500); n++) {
    await wait(40 + Math.random() * 40);
    const at = clock();
    await hf.enqueue(stamp, { n }, { partitionKey: `order:${n}` });
    await until('the job to start', () => started.has(n));
    idle.push(started.get(n) - at);
    await wait(40 + Math.random() * 40);
    const bareAt = clock();
    await bare.insert(n);
    await until('the row to be taken', () => started.has(`bare ${n}`));
    least.push(started.get(`bare ${n}`) - bareAt);
  }
  await bare.stop();
  say(
    `by turns, told only: a bare INSERT with NOTIFY, a listener and one UPDATE: p50 ${percentile(least, 0.5).toFixed(2)} p90 ${percentile(least, 0.9).toFixed(2)} p99 ${percentile(least, 0.99).toFixed(2)} ms`,
  );
  const [p50, p99] = [percentile(idle, 0.5), percentile(idle, 0.99)];
  say(
    `idle fleet, enqueue to start: p50 ${p50.toFixed(2)} p90 ${percentile(idle, 0.9).toFixed(2)} p99 ${p99.toFixed(2)} ms`,
  );
  figure('fleet.latency_idle_p50', `${p50.toFixed(2)} ms`, '<= 2.5 ms', p50 <= 2.5);
  figure('fleet.latency_idle_p99', `${p99.toFixed(2)} ms`, '<= 6 ms', p99 <= 6);

  const late = [];
  for (let round = 0; round < (quick ? 2 : 10); round++) {
    await Promise.all(
      Array.from({ length: 10 }, async (_, k) => {
        const n = `late ${round}.${k}`;
        const client = new pg.Client({ connectionString: url });
        await client.connect();
        await client.query('BEGIN');
        await hf.enqueue(stamp, { n }, { partitionKey: `late:${round}:${k}`, tx: client });
        await wait(2_000 + k * 60);
        const at = clock();
        await client.query('COMMIT');
        await until('the late job to start', () => started.has(n));
        late.push(started.get(n) - at);
        await client.end();
      }),
    );
  }
  const lateP99 = percentile(late, 0.99);
  say(
    `committed 2 s after its insert: p50 ${percentile(late, 0.5).toFixed(2)} p99 ${lateP99.toFixed(2)} ms`,
  );
  figure('fleet.latency_late_commit_p99', `${lateP99.toFixed(1)} ms`, '<= 50 ms', lateP99 <= 50);
  await stopWorkers();
  await admin.query("UPDATE holdfast.workers SET status = 'dead' WHERE status <> 'dead'");
}
