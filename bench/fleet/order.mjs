// Order per key beside none, a hot key beside others, failing keys beside others, and a held horizon.
import { execFileSync } from 'node:child_process';
import pg from 'pg';
import { fill, fillMore } from '../ground.mjs';
import { median, pairwise } from '../statistics.mjs';
import { drainRate } from './draining.mjs';

const percent = (share) => `${(share * 100).toFixed(0)}%`;

/** Alternates the cases, there and back, so that a slow moment of the machine meets all of them. */
async function rounds(count, cases, say) {
  const rates = Object.fromEntries(Object.keys(cases).map((name) => [name, []]));
  for (let round = 0; round < count; round++) {
    const turns = Object.entries(cases);
    for (const [name, run] of round % 2 ? turns.reverse() : turns) rates[name].push(await run());
  }
  for (const [name, all] of Object.entries(rates)) {
    say(`${name}: ${all.map((rate) => Math.round(rate)).join(' ')} jobs/s`);
  }
  return Object.values(rates);
}

export async function order({ ground, quick, figure, say }) {
  const { admin, hf } = ground;
  const jobs = quick ? 50_000 : 100_000;
  const drained = async (keys, ordering) => {
    await fill(admin, jobs, { keys, ordering });
    return drainRate(hf, jobs);
  };
  const rates = await rounds(
    quick ? 3 : 5,
    {
      'no order, 10,000 keys': () => drained(10_000, 'none'),
      'order per key, 10,000 keys': () => drained(10_000, 'key'),
      'order per key, one key': () => drained(1, 'key'),
    },
    say,
  );
  const [none, many, one] = rates;
  const share = (name, value, goal) =>
    figure(name, percent(value), `>= ${percent(goal)}`, value >= goal);
  share('fleet.ordered_10k_keys', pairwise(many, none), 0.7);
  share('fleet.ordered_one_key', pairwise(one, none), 0.25);
}

export async function bystanders({ ground, quick, figure, say }) {
  const { admin, hf } = ground;
  // Some seconds of work: the first moments of a worker are not what is asked for. 103 of each key, because
  // 100 would fit into claims of 500 without a rest, as long as nobody else is claimed.
  const healthy = quick ? 20_600 : 103_000;
  const beside = async (ordering, before, after) => {
    await fill(admin, 0, {});
    if (before) await fillMore(admin, before.count, { ...before, ordering });
    await fillMore(admin, healthy, { keys: 1_000, ordering });
    if (after) await fillMore(admin, after.count, { ...after, ordering });
    // A round comes once in ten seconds; here it would fall into some of these drains and not into others.
    await admin.query('UPDATE holdfast.queues SET housekept_at = now()');
    // What filling the table left to the system to write is ten times as much with a hot key.
    execFileSync('sync');
    return drainRate(hf, healthy);
  };
  const hot = { count: healthy * 9, keys: 1, prefix: 'hot:', type: 'hot' };
  const half = { ...hot, count: hot.count / 2 };
  const failing = { count: healthy / 10, keys: 100, prefix: 'failing:', type: 'fails' };
  const alone = () => beside('none', null);
  const aloneOrdered = () => beside('key', null);
  const rates = await rounds(
    quick ? 1 : 9,
    {
      // Each between two turns of what it is compared with.
      'healthy keys alone': alone,
      'beside a hot key': () => beside('none', hot),
      'healthy keys alone, again': alone,
      'healthy keys alone, ordered': aloneOrdered,
      'beside a hot key, ordered': () => beside('key', hot),
      'healthy keys alone, ordered, again': aloneOrdered,
      'beside failing keys, ordered': () => beside('key', failing),
      'healthy keys alone, ordered, at last': aloneOrdered,
    },
    say,
  );
  // Without a goal: the line when it is not all older than the others.
  const amid = { 'amid a hot key, told only': () => beside('none', half, half) };
  await rounds(quick ? 1 : 3, amid, say);
  const share = (name, turn) => {
    const base = rates[turn].map((_, n) => (rates[turn - 1][n] + rates[turn + 1][n]) / 2);
    const value = pairwise(rates[turn], base);
    figure(name, percent(value), '>= 95%', value >= 0.95);
  };
  share('fleet.beside_hot_key', 1);
  share('fleet.beside_hot_key_ordered', 4);
  share('fleet.beside_failing_keys', 6);
}

export async function horizon({ ground, quick, figure, say }) {
  const { admin, hf, url } = ground;
  const jobs = quick ? 200_000 : 500_000;
  const ratios = [];
  for (let round = 0; round < (quick ? 1 : 3); round++) {
    await fill(admin, jobs, {});
    const holder = new pg.Client({ connectionString: url });
    await holder.connect();
    await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await holder.query('SELECT count(*) FROM holdfast.queues');
    const marks = [];
    let last = performance.now();
    await drainRate(hf, jobs, {
      onFifty: () => {
        marks.push(50_000_000 / (performance.now() - last));
        last = performance.now();
      },
    });
    await holder.end();
    say(`held horizon, jobs/s per 50,000: ${marks.map(Math.round).join(' ')}`);
    ratios.push(marks.at(-1) / marks[0]);
  }
  const last = median(ratios);
  figure('fleet.held_horizon_last_over_first', percent(last), '>= 90%', last >= 0.9);
}
