// Backlog: Holdfast's drain rate and its claim's time with 10 thousand jobs waiting, and with a
// million and five. One warm worker process runs throughout. At 10 thousand it drains them in
// bursts, and the rate is read between the first thousand and the last of a burst; at a large
// backlog it is read over as many jobs. Then the bursts again with five million completed jobs in
// the archive.

import { job } from '../../dist/index.js';
import { startActor } from '../actors.mjs';
import { claimMs } from '../bare.mjs';
import { became } from '../clock.mjs';
import { fill, openGround } from '../ground.mjs';
import { measured, median, plain } from '../statistics.mjs';

const noop = job('noop');
const BURST = 10_000;
const WARM_BURSTS = 2;
/** As many jobs as one measurement at a large backlog drains, and some more. */
const ENOUGH = 150_000;
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

async function bursts(ground, actor, count) {
  await actor.work({});
  for (let n = 1; n <= count + WARM_BURSTS; n++) {
    const items = Array.from({ length: BURST }, (_, k) =>
      noop.of({ orderId: k }, { key: `order:${k}` }),
    );
    await ground.hf.enqueueMany(items);
    await emptied(actor, n * BURST);
  }
  const rates = windows(actor.progress.marks).slice(WARM_BURSTS);
  await actor.stopWork();
  return rates;
}

async function deep(actor, count) {
  await actor.work({});
  await emptied(actor, (count + WARM_BURSTS) * BURST);
  const rates = windows(actor.progress.marks).slice(WARM_BURSTS, WARM_BURSTS + count);
  await actor.stopWork();
  return rates;
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
  // As empty as without the archive: old pages would be logged whole after the checkpoint.
  await admin.query('TRUNCATE holdfast.inbox');
  await admin.query('CHECKPOINT');
}

function loss(figure, name, before, after, goal) {
  const value = 1 - after / before;
  figure(
    name,
    `${(value * 100).toFixed(1)}% (${plain(after)} against ${plain(before)})`,
    `<= ${goal}%`,
    value * 100 <= goal,
  );
}

export async function backlog({ url, entries, quick, size, figure, table, raw, say }) {
  const ground = await openGround(url);
  const actor = await startActor(entries.ours);
  const count = quick ? 2 : 10;
  const claimed = quick ? 60 : 200;
  const near = quick ? count : 2 * count;
  const base = [];
  const claims = [];
  const small = async () => {
    await fill(ground.admin, 0);
    base.push(...(await bursts(ground, actor, count)));
    await fill(ground.admin, BURST);
    claims.push(await claimMs(ground, claimed));
  };
  await small();
  const rows = [];
  for (const large of quick
    ? [100_000]
    : [1_000_000, 5_000_000].map((n) => Math.max(size(n), ENOUGH))) {
    say(`loading ${plain(large)} jobs …`);
    await fill(ground.admin, large, { keys: BURST });
    const claim = await claimMs(ground, claimed);
    const rates = await deep(actor, count);
    await small();
    rows.push({ large, claim, rates });
    say(
      `${brief(large)} waiting: ${measured(rates)} jobs/s, claim of 25 in ${claim.toFixed(3)} ms`,
    );
  }
  const completed = quick ? 200_000 : size(5_000_000, 0);
  say(`${brief(BURST)} waiting: ${measured(base)} jobs/s, claim in ${measured(claims)} ms`);
  // The same bursts right before and right after: five in a hundred is less than a machine's moods.
  await fill(ground.admin, 0);
  const beside = await bursts(ground, actor, near);
  await archive(ground.admin, completed);
  const behind = await bursts(ground, actor, near);
  await fill(ground.admin, 0);
  beside.push(...(await bursts(ground, actor, near)));
  say(`${brief(completed)} completed behind it: ${measured(behind)} jobs/s`);
  await actor.kill();
  await fill(ground.admin, 0);
  await ground.close();

  for (const { large, claim, rates } of rows) {
    loss(figure, `backlog.rate_loss_${brief(large)}`, median(base), median(rates), 10);
    const more = claim / median(claims) - 1;
    figure(
      `backlog.claim_time_growth_${brief(large)}`,
      `${(more * 100).toFixed(1)}% (${claim.toFixed(3)} ms against ${median(claims).toFixed(3)} ms)`,
      '<= 10%',
      more <= 0.1,
    );
  }
  const name = `backlog.rate_loss_${brief(completed)}_completed`;
  loss(figure, name, median(beside), median(behind), 5);
  raw('backlog', { base, claims, rows, beside, behind });
  table({
    title: 'Holdfast by the size of its backlog, one process',
    columns: ['', 'jobs/s', 'claim of 25, ms'],
    rows: [
      [`${brief(BURST)} waiting`, measured(base), median(claims).toFixed(3)],
      ...rows.map((row) => [
        `${brief(row.large)} waiting`,
        measured(row.rates),
        row.claim.toFixed(3),
      ]),
      [`${brief(BURST)} waiting, none completed`, measured(beside), '–'],
      [`${brief(BURST)} waiting, ${brief(completed)} completed`, measured(behind), '–'],
    ],
  });
}
