// Healthy keys beside a hot key, and beside failing keys, against the same without them.
import { execFileSync } from 'node:child_process';
import { fill, fillMore, openGround } from '../ground.mjs';
import { median } from '../statistics.mjs';
import { drainRate } from './draining.mjs';

/**
 * The base, the case, the base, the case, and so on: each rate over the mean of the two turns of the base
 * around it, so that a slow moment of the machine meets both. A chain for each case, because a turn of the
 * base is not the same after one case as after another.
 */
async function between(rounds, base, name, turn, say) {
  const baseRates = [await base()];
  const rates = [];
  const shares = [];
  for (let round = 0; round < rounds; round++) {
    const before = baseRates.at(-1);
    const rate = await turn();
    const after = await base();
    baseRates.push(after);
    rates.push(rate);
    shares.push((2 * rate) / (before + after));
  }
  const whole = (all) => all.map((rate) => Math.round(rate)).join(' ');
  say(`without them: ${whole(baseRates)} jobs/s`);
  say(`${name}: ${whole(rates)} jobs/s`);
  return shares;
}

/** A database of its own, where a long line stays from turn to turn. */
async function withLine({ admin, url }, name, line) {
  await admin.query(`CREATE DATABASE ${name}`);
  const there = new URL(url);
  there.pathname = `/${name}`;
  const ground = await openGround(there.href);
  await byHand(ground);
  await fillMore(ground.admin, line.count, line);
  return ground;
}

/** Vacuumed before each turn, and not in the midst of some. */
async function byHand({ admin }, off = true) {
  for (const table of ['inbox', 'inbox_archive'])
    await admin.query(`ALTER TABLE holdfast.${table} SET (autovacuum_enabled = ${!off})`);
}

export async function bystanders({ ground, quick, figure, say }) {
  // Some seconds of work: the first moments of a worker are not what is asked for. 103 of each key, because
  // 100 would fit into claims of 500 without a rest, as long as nobody else is claimed.
  const healthy = quick ? 20_600 : 103_000;
  const rounds = quick ? 3 : 21;
  const drain = async ({ admin, hf }) => {
    // A round comes once in ten seconds; here it would fall into some of these drains and not into others.
    await admin.query('UPDATE holdfast.queues SET housekept_at = now()');
    // What filling the table left to the system to write.
    execFileSync('sync');
    return drainRate(hf, healthy);
  };
  const fresh = async (ordering, before, after) => {
    await fill(ground.admin, 0, {});
    if (before) await fillMore(ground.admin, before.count, { ...before, ordering });
    await fillMore(ground.admin, healthy, { keys: 1_000, ordering });
    if (after) await fillMore(ground.admin, after.count, { ...after, ordering });
    return drain(ground);
  };
  const behind = async (line, ordering) => {
    await line.admin.query('TRUNCATE holdfast.inbox_archive');
    await line.admin.query('VACUUM holdfast.inbox');
    await line.admin.query('CHECKPOINT');
    await fillMore(line.admin, healthy, { keys: 1_000, ordering });
    return drain(line);
  };
  const hot = { count: healthy * 9, keys: 1, prefix: 'hot:', type: 'hot' };
  const half = { ...hot, count: hot.count / 2 };
  const failing = { count: healthy / 10, keys: 100, prefix: 'failing:', type: 'fails' };
  const share = (name, shares) => {
    const value = median(shares);
    say(`${name}: ${shares.map((one) => (one * 100).toFixed(0)).join(' ')} %`);
    figure(name, `${(value * 100).toFixed(0)}%`, '>= 95%', value >= 0.95);
  };

  await byHand(ground);
  const lines = [];
  try {
    for (const ordering of ['none', 'key'])
      lines.push(await withLine(ground, `line_${ordering}`, { ...hot, ordering }));
    const [plain, ordered] = lines;
    const cases = [
      ['beside a hot key', 'none', () => behind(plain, 'none')],
      ['beside a hot key, ordered', 'key', () => behind(ordered, 'key')],
      ['beside failing keys, ordered', 'key', () => fresh('key', failing)],
    ];
    const shares = [];
    for (const [name, ordering, turn] of cases)
      shares.push(await between(rounds, () => fresh(ordering), name, turn, say));
    const [besideHot, besideOrdered, besideFailing] = shares;
    // Without a goal: the line when it is not all older than the others.
    const amid = [];
    for (let round = 0; round < (quick ? 1 : 3); round++)
      amid.push(await fresh('none', half, half));
    say(`amid a hot key, told only: ${amid.map(Math.round).join(' ')} jobs/s`);
    share('fleet.beside_hot_key', besideHot);
    share('fleet.beside_hot_key_ordered', besideOrdered);
    share('fleet.beside_failing_keys', besideFailing);
  } finally {
    await byHand(ground, false);
    await Promise.allSettled(lines.map((line) => line.close()));
    for (const ordering of ['none', 'key'])
      await ground.admin.query(`DROP DATABASE IF EXISTS line_${ordering} WITH (FORCE)`);
  }
}
