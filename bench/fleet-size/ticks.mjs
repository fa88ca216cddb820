// Row 11. Many schedules are due at one instant and want no catching up: each gets its job.
import { job } from '../../packages/holdfast/dist/index.js';
import { became, wait } from '../clock.mjs';
import { plain } from '../statistics.mjs';
import { atLeast, atMost } from './figures.mjs';

const PER_SECOND = 5_000;
const tick = job('tick');

/** A cron line of one moment: second, minute, hour, day, month. */
const lineOf = (at) =>
  `${at.getUTCSeconds()} ${at.getUTCMinutes()} ${at.getUTCHours()} ${at.getUTCDate()} ${at.getUTCMonth() + 1} *`;

/** One that the API has made, and as many copies of it under other names. */
const COPIES = `INSERT INTO holdfast.schedules
  SELECT (jsonb_populate_record(s, jsonb_build_object('name', 'tick:' || n))).*
  FROM holdfast.schedules AS s, generate_series(2, $1::int) AS n WHERE s.name = 'tick:1'`;

const WRITTEN = `SELECT count(*)::int AS n,
    extract(epoch FROM max(created_at) - $1::timestamptz)::float8 AS seconds
  FROM (SELECT created_at FROM holdfast.inbox WHERE type = 'tick'
    UNION ALL SELECT created_at FROM holdfast.inbox_archive WHERE type = 'tick') AS t`;

export async function run({ open, size, figure, say }) {
  const count = size(20_000, 2_000);
  const scene = await open();
  await scene.workers(1, { types: [{ type: 'tick' }], counted: true });
  const { rows } = await scene.admin.query('SELECT now() AS now');
  const now = rows[0].now;
  const at = new Date(Math.ceil((now.getTime() + size(10_000, 4_000)) / 1_000) * 1_000);
  const spec = { cron: lineOf(at), job: tick, payload: { n: 0, ms: 0 }, catchUp: 'none' };
  await scene.hf.schedule('tick:1', spec);
  await scene.admin.query(COPIES, [count]);
  await wait(at - now);
  const written = async () => (await scene.admin.query(WRITTEN, [at])).rows[0];
  await became(async () => (await written()).n >= count, 30_000, 250);
  const { n, seconds } = await written();
  say(
    `  ${plain(n)} of ${plain(count)} ticks, the last ${seconds?.toFixed(2)} s after the instant`,
  );
  atMost(figure, 'ticks_dropped', count - n, 0);
  atLeast(figure, 'ticks_per_second', n / Math.max(seconds ?? 1, 0.001), PER_SECOND);
  await scene.close();
}
