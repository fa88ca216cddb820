// Held horizon: a transaction stays open while the jobs are drained, so that nothing that dies can
// be vacuumed away. The rate over the last tenth is set against the first, and dead tuples are
// counted.
import pg from 'pg';
import { startActor } from '../actors.mjs';
import { drain } from '../draining.mjs';
import { median, plain } from '../statistics.mjs';

const PIECES = 10;

async function held(url, work) {
  const holder = new pg.Client({ connectionString: url });
  await holder.connect();
  await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
  await holder.query('SELECT count(*) FROM pg_class');
  try {
    return await work();
  } finally {
    await holder.end();
  }
}

/** Jobs per second of each piece that was drained whole. */
function pieces(marks, first, piece) {
  const rates = [];
  let before = first;
  for (const [count, at] of marks) {
    if (count % piece !== 0) continue;
    rates.push((piece / (at - before)) * 1000);
    before = at;
  }
  return rates;
}

export async function horizon({ url, stage, entries, quick, size, figure, table, raw, say }) {
  // BullMQ takes each job by itself and would not come through its first tenth in the time.
  const able = entries.fastest.filter(({ system }) => system.package !== 'bullmq');
  const peers = quick ? able.slice(0, 1) : able;
  if (quick) say('pg-boss: skipped in a quick run.');
  const contestants = [entries.ours, ...peers];
  const jobs = size(500_000, 30_000);
  const piece = jobs / PIECES;
  const found = new Map();
  for (const entry of contestants) {
    const actor = await startActor(entry);
    const [ratios, firsts, lasts] = [[], [], []];
    let rates = [];
    let dead = 0;
    for (let round = 0; round < (entry.ours && !quick ? 2 : 1); round++) {
      await stage.fill(entry, jobs);
      await held(url, async () => {
        const limitMs = quick ? 8_000 : 90_000;
        const { marks, count } = await drain(stage, entry, [actor], { total: jobs, limitMs });
        const first = marks[0]?.[1] - (marks[1]?.[1] - marks[0]?.[1]);
        rates = pieces(marks, first, piece);
        dead = await stage.deadTuples(entry);
        say(
          `${entry.label}: ${plain(count)} jobs, jobs/s per ${plain(piece)}: ${rates.map(Math.round).join(' ')}; ` +
            `${plain(dead)} dead tuples`,
        );
      });
      if (rates.length < 2) continue;
      ratios.push(rates.at(-1) / rates[0]);
      firsts.push(rates[0]);
      lasts.push(rates.at(-1));
    }
    await actor.kill();
    found.set(entry.label, {
      ratio: median(ratios),
      first: median(firsts),
      last: median(lasts),
      ratios,
      rates,
      dead,
    });
  }
  const share = found.get(entries.ours.label).ratio;
  const percent = (value) => (Number.isFinite(value) ? `${(value * 100).toFixed(0)}%` : '–');
  figure('horizon.last_over_first', percent(share), '>= 90%', share >= 0.9);
  raw('horizon', Object.fromEntries(found));
  table({
    title: `${plain(jobs)} jobs while a transaction stays open, one process`,
    columns: [
      '',
      `first ${plain(piece)}, jobs/s`,
      `last ${plain(piece)}`,
      'last over first',
      'dead tuples',
    ],
    rows: contestants.map(({ label }) => {
      const { rates, first, last, ratio, dead } = found.get(label);
      return [
        label,
        plain(first ?? rates[0]),
        `${plain(last ?? rates.at(-1))}${rates.length < PIECES ? ` (the ${rates.length}th; time over)` : ''}`,
        percent(ratio),
        plain(dead),
      ];
    }),
  });
}
