// Keys that take turns, beside no order: 10,000 keys of which each has two jobs at once, in turns; and one key.

import { fillMore } from '../fixture.mjs';
import { drainRate } from '../fleet/draining.mjs';
import { pairwise } from '../statistics.mjs';

const GOAL = 0.7;
const percent = (share) => `${(share * 100).toFixed(0)}%`;

const BY_TIME = { ordering: 'none', fair: false, perKey: null };
export const IN_TURN = { ordering: 'turns', fair: true, perKey: 2 };

/** An empty queue with this policy, and `count` due jobs over `keys` keys. */
export async function filled(admin, { ordering, fair, perKey }, count, keys) {
  await admin.query('TRUNCATE holdfast.inbox, holdfast.inbox_archive, holdfast.inbox_claims');
  await admin.query(
    "UPDATE holdfast.queues SET ordering = $1, fair = $2, per_key = $3 WHERE name = 'inbox'",
    [ordering, fair, perKey],
  );
  await fillMore(admin, count, { keys });
  await admin.query('CHECKPOINT');
}

export async function fair({ fixture, quick, figure, say }) {
  const { admin, hf } = fixture;
  const jobs = quick ? 30_000 : 100_000;
  const cases = {
    'by time': [BY_TIME, 10_000],
    'perKey: 2, fair, 10,000 keys': [IN_TURN, 10_000],
    'fair, one key': [{ ...IN_TURN, perKey: null }, 1],
  };
  const rates = Object.fromEntries(Object.keys(cases).map((name) => [name, []]));
  for (let round = 0; round < (quick ? 3 : 5); round++) {
    const turns = Object.entries(cases);
    for (const [name, [policy, keys]] of round % 2 ? turns.reverse() : turns) {
      await filled(admin, policy, jobs, keys);
      rates[name].push(await drainRate(hf, jobs));
    }
  }
  await filled(admin, BY_TIME, 0, 1);
  for (const [name, all] of Object.entries(rates))
    say(`${name}: ${all.map((rate) => Math.round(rate)).join(' ')} jobs/s`);
  const [none, many, one] = Object.values(rates);
  const share = pairwise(many, none);
  figure('flow.fair_10k_keys', percent(share), `>= ${percent(GOAL)}`, share >= GOAL);
  say(`one key: ${percent(pairwise(one, none))} of a queue by time`);
}
