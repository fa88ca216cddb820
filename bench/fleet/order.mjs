// Order per key beside none, and a held horizon.
import pg from 'pg';
import { fill } from '../fixture.mjs';
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

export async function order({ fixture, quick, figure, say }) {
  const { admin, hf } = fixture;
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

export async function horizon({ fixture, quick, figure, say }) {
  const { admin, hf, url } = fixture;
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
