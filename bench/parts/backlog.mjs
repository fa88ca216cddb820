// Backlog: Holdfast's drain rate and its claim's time with 10 thousand jobs waiting, beside a million
// and five, and beside five million completed ones. Each large case has a database of its own on the
// same server, and one warm process works now here and now there: a loss is the median of what each
// pair of neighbours says, since five in a hundred is less than a machine's moods. With 10 thousand
// the jobs come in bursts, and the rate is read between the first thousand and the last of a burst;
// at a large backlog it is read over as many jobs.

import { job } from '../../packages/holdfast/dist/index.js';
import { startActor } from '../actors.mjs';
import { claimMs } from '../bare.mjs';
import { became } from '../clock.mjs';
import { fillMore, openFixture } from '../fixture.mjs';
import { measured, median, pairwise, plain } from '../statistics.mjs';

const noop = job('noop');
const BURST = 10_000;
const WARM_BURSTS = 1;
const brief = (count) => (count >= 1_000_000 ? `${count / 1_000_000}M` : `${count / 1_000}k`);

/** Jobs per second between the first thousand and the ninth of each ten. */
function windows(marks) {
  const at = new Map(marks);
  const rates = [];
  for (let from = 0; at.has(from + 9_000); from += BURST)
    rates.push((8_000 / (at.get(from + 9_000) - at.get(from + 1_000))) * 1000);
  return rates;
}

async function emptied(actor, count) {
  if (!(await became(() => actor.progress.count >= count, 60_000, 5)))
    throw new Error(`${actor.progress.count} of ${count} jobs ran within a minute`);
}

async function bursts({ hf, url }, actor, turn) {
  await actor.work({ url });
  for (let n = 1; n * BURST <= turn; n++) {
    const items = Array.from({ length: BURST }, (_, k) =>
      noop.item({ orderId: k }, { partitionKey: `order:${k}` }),
    );
    await hf.enqueueMany(items);
    await emptied(actor, n * BURST);
  }
  return ratesOf(actor, turn);
}

async function deep({ url }, actor, turn) {
  await actor.work({ url });
  await emptied(actor, turn);
  return ratesOf(actor, turn);
}

async function ratesOf(actor, turn) {
  const rates = windows(actor.progress.marks).slice(WARM_BURSTS, turn / BURST);
  await actor.stopWork();
  return rates;
}

/** Another database on the same server, migrated, for as long as `work` takes. */
async function elsewhere(fixture, name, work) {
  const url = new URL(fixture.url);
  url.pathname = `/${name}`;
  await fixture.admin.query(`DROP DATABASE IF EXISTS ${name}`);
  await fixture.admin.query(`CREATE DATABASE ${name}`);
  const there = await openFixture(url.href);
  try {
    return await work(there);
  } finally {
    await there.close();
    await fixture.admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
  }
}

/** Here and there by turns; the order of the two changes from pair to pair. */
async function pairs(count, here, there) {
  const found = { here: [], there: [] };
  for (let n = 0; n < count; n++) {
    for (const side of n % 2 ? ['there', 'here'] : ['here', 'there'])
      found[side].push(await (side === 'here' ? here() : there()));
  }
  return found;
}

/** As if so many jobs had been completed: copies of one that was. */
async function archive(admin, count) {
  const { rows } = await admin.query(
    `SELECT string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position) AS rest
     FROM information_schema.columns
     WHERE table_schema = 'holdfast' AND table_name = 'inbox_archive' AND column_name <> 'id'`,
  );
  await admin.query(
    `INSERT INTO holdfast.inbox_archive (id, ${rows[0].rest})
     SELECT uuidv7(), ${rows[0].rest}
     FROM (SELECT * FROM holdfast.inbox_archive LIMIT 1) AS a, generate_series(1, $1::int)`,
    [count],
  );
  await admin.query('VACUUM (ANALYZE) holdfast.inbox_archive');
}

/** Jobs per second over all of a turn: its windows are of the same length in jobs. */
const overall = (rates) => rates.length / rates.reduce((sum, rate) => sum + 1 / rate, 0);
const rated = ({ here, there }) => [there.map(overall), here.map(overall)];

function tell(figure, name, value, { here, there }, goal, unit) {
  const [before, after] = [median(here.flat()), median(there.flat())].map(plain);
  figure(
    name,
    `${(value * 100).toFixed(1)}% (${after} against ${before}${unit})`,
    `<= ${goal}%`,
    value * 100 <= goal,
  );
}

export async function backlog({ url, entries, quick, size, figure, table, raw, say }) {
  const fixture = await openFixture(url);
  const actor = await startActor(entries.ours);
  const count = quick ? 1 : 14;
  /** Jobs of each turn here or there. */
  const turn = (WARM_BURSTS + (quick ? 2 : 5)) * BURST;
  const claimed = quick ? 60 : 100;
  const clear = ({ admin }) => admin.query('TRUNCATE holdfast.inbox');
  const empty = async () => {
    await clear(fixture);
    return bursts(fixture, actor, turn);
  };
  // The code of the process warms up where nothing is counted.
  await empty();
  const rows = [];
  for (const large of quick ? [50_000] : [1_000_000, 5_000_000].map((n) => size(n, turn * count))) {
    say(`loading ${plain(large)} jobs …`);
    await elsewhere(fixture, 'bench_backlog', async (there) => {
      // So many on average: half of what the turns take comes on top.
      await fillMore(there.admin, large + (turn * count) / 2, { keys: BURST });
      // As a queue that has been there for a while; else autovacuum would do it meanwhile. No checkpoint,
      // here and between the turns: the first write to a page after one logs it whole, which a turn of
      // half a second would pay for and a day would not.
      await there.admin.query('VACUUM (ANALYZE) holdfast.inbox');
      const claims = await pairs(
        count,
        async () => {
          await clear(fixture);
          await fillMore(fixture.admin, BURST);
          return claimMs(fixture, claimed);
        },
        () => claimMs(there, claimed),
      );
      const rates = await pairs(count, empty, () => deep(there, actor, turn));
      rows.push({ large, claims, rates });
    });
  }
  const completed = quick ? 100_000 : size(5_000_000, 0);
  say(`archiving ${plain(completed)} jobs …`);
  const behind = await elsewhere(fixture, 'bench_archive', async (there) => {
    await bursts(there, actor, turn);
    await archive(there.admin, completed);
    return pairs(count, empty, async () => {
      await clear(there);
      return bursts(there, actor, turn);
    });
  });
  await actor.kill();
  await fixture.admin.query('TRUNCATE holdfast.inbox, holdfast.inbox_archive');
  await fixture.close();

  for (const { large, claims, rates } of rows) {
    say(
      `${brief(large)} waiting: ${measured(rates.there.flat())} jobs/s against ${measured(rates.here.flat())}`,
    );
    tell(
      figure,
      `backlog.rate_loss_${brief(large)}`,
      1 - pairwise(...rated(rates)),
      rates,
      10,
      ' jobs/s',
    );
    const growth = pairwise(claims.there, claims.here) - 1;
    tell(figure, `backlog.claim_time_growth_${brief(large)}`, growth, claims, 10, ' ms');
  }
  const name = `backlog.rate_loss_${brief(completed)}_completed`;
  tell(figure, name, 1 - pairwise(...rated(behind)), behind, 5, ' jobs/s');
  raw('backlog', { rows, behind });
  table({
    title: 'Holdfast by the size of its backlog, one process; each case with the bursts beside it',
    columns: [
      '',
      'jobs/s',
      `beside ${brief(BURST)} waiting`,
      'claim of 25, ms',
      `beside ${brief(BURST)} waiting`,
    ],
    rows: [
      ...rows.map(({ large, claims, rates }) => [
        `${brief(large)} waiting`,
        ...[rates.there, rates.here, claims.there, claims.here].map((all) => measured(all.flat())),
      ]),
      [
        `${brief(BURST)} waiting, ${brief(completed)} completed`,
        ...[behind.there, behind.here].map((all) => measured(all.flat())),
        '–',
        '–',
      ],
    ],
  });
}
