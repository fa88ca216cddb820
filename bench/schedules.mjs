// Schedules: how late ticks are with 100,000 schedules of which 1,000 are due a second, and what a fleet asks
// while none of 10,000 is due. A worker also runs the jobs, with a handler that does nothing.
import { job } from '../packages/holdfast/dist/index.js';
import { openFixture } from './fixture.mjs';
import { percentile } from './statistics.mjs';

const GOAL_MS = 1_000;
const COUNT = 100_000;
const ZONES = ['Europe/Lisbon', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kolkata', 'UTC'];
const tick = job('tick');
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Each fires every 100 seconds, at a time of its own. */
const INTERVALS = `
INSERT INTO holdfast.schedules (name, queue, type, payload, every, jitter, next_instant, next_at)
SELECT t.name, 'inbox', 'tick', '{}', '100 seconds', '100 seconds', i.at, i.at + t.delay
FROM generate_series(1, $1::int) AS n,
  LATERAL (SELECT 'tenant:' || n, floor(holdfast.hash32('tenant:' || n) / 4294967296.0 * 100000)
    * interval '1 millisecond') AS t(name, delay),
  (SELECT to_timestamp(floor(extract(epoch FROM now()) / 100) * 100)) AS g(at),
  LATERAL (SELECT CASE WHEN g.at + t.delay > now() THEN g.at ELSE g.at + interval '100 seconds' END) AS i(at)`;

/** Each fires every two minutes, at a second of its own; many in the same second. */
const LINES = `
INSERT INTO holdfast.schedules (name, queue, type, payload, cron, timezone, next_instant, next_at)
SELECT 'tenant:' || n, 'inbox', 'tick', '{}', concat(n % 60, ' ', n / 60 % 2, '-59/2 * * * *'),
  ($2::text[])[1 + n % array_length($2::text[], 1)], g.at, g.at
FROM generate_series(1, $1::int) AS n, LATERAL (SELECT date_trunc('hour', now())
  + (ceil((extract(epoch FROM now()) - extract(epoch FROM date_trunc('hour', now())) - (n % 60 + n / 60 % 2 * 60)) / 120) * 120
    + n % 60 + n / 60 % 2 * 60) * interval '1 second') AS g(at)`;

async function refill(admin, text, params) {
  await admin.query(
    'TRUNCATE holdfast.schedules, holdfast.inbox, holdfast.inbox_archive, holdfast.inbox_idempotency',
  );
  await admin.query(text, params);
  await admin.query('ANALYZE holdfast.schedules');
}

function startWorkers(hf, count) {
  const lags = [];
  const workers = Array.from({ length: count }, () =>
    hf
      .worker({
        handleSignals: false,
        onEvent: (event) => {
          if (event.kind === 'ticked') lags.push(...event.lagsMs);
        },
      })
      .handle(tick, () => undefined),
  );
  const running = workers.map((worker) => worker.run());
  const stop = async () => {
    await Promise.all(workers.map((worker) => worker.stop()));
    await Promise.all(running);
  };
  return { lags, stop };
}

async function lag({ hf, admin }, text, params, seconds) {
  await refill(admin, text, params);
  const { lags, stop } = startWorkers(hf, 1);
  await pause(5_000);
  lags.length = 0;
  await pause(seconds * 1_000);
  const seen = [...lags];
  await stop();
  return {
    perSecond: seen.length / seconds,
    p50: percentile(seen, 0.5),
    p99: percentile(seen, 0.99),
  };
}

const SCANS = `SELECT idx_scan::int AS scans FROM pg_stat_user_indexes WHERE indexrelname = 'schedules_due_idx'`;

/** Questions a second of a fleet of four. One question scans the index twice. */
async function idle({ hf, admin }, seconds) {
  await refill(admin, INTERVALS, [10_000]);
  await admin.query(`UPDATE holdfast.schedules SET next_at = next_at + interval '1 day'`);
  const { stop } = startWorkers(hf, 4);
  await pause(10_000);
  const scans = async () => (await admin.query(SCANS)).rows[0].scans;
  const before = await scans();
  await pause(seconds * 1_000);
  const asked = ((await scans()) - before) / 2 / seconds;
  await stop();
  return asked;
}

export async function schedules({ url, quick, figure, say }) {
  const fixture = await openFixture(url);
  const seconds = quick ? 15 : 60;
  const kinds = { intervals: [INTERVALS, [COUNT]], cron_lines: [LINES, [COUNT, ZONES]] };
  for (const [kind, [text, params]] of Object.entries(kinds)) {
    say(`${COUNT.toLocaleString('en')} schedules, ${kind} …`);
    const { perSecond, p50, p99 } = await lag(fixture, text, params, seconds);
    say(`${perSecond.toFixed(0)} ticks a second, half of them within ${p50} ms`);
    figure(`schedules.lag_p99_${kind}_ms`, String(p99), `<= ${GOAL_MS}`, p99 <= GOAL_MS);
  }
  const asked = await idle(fixture, seconds);
  figure('schedules.idle_queries_per_second', asked.toFixed(2), '<= 1', asked <= 1);
  await fixture.close();
}
