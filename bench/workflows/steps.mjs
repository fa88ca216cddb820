// What a step costs: one run alone, and a hundred runs on two workers.
import pg from 'pg';
import { measured, median, pairwise } from '../statistics.mjs';
import { now } from './clock.mjs';
import { collect, startProcess } from './process.mjs';

const COUNT = 50;
/** The process is as warm then as one that has worked for a second. */
const WARM = 20;

/** The statement that a step is made of, alone: its row, if the run is still this worker's. */
const BARE = `
WITH owned AS MATERIALIZED (
  SELECT i.id FROM holdfast.inbox AS i
  WHERE i.id = $1 AND i.lease_generation = $2 AND i.claimed_by = $3 AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()
  FOR SHARE
)
INSERT INTO holdfast.inbox_steps (run_id, place, nth, ms, kind, name, value)
SELECT o.id, $4, $4, 0, 's', $5, $6 FROM owned AS o`;

/** Writes `COUNT` steps by that statement alone; returns the milliseconds of one. */
async function openBare(url) {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  const { rows } = await client.query(
    `INSERT INTO holdfast.inbox (type, payload, status, claimed_by, claimed_at, lease_expires_at,
       lease_generation, attempts, partition_bucket, partition_key, parked)
     VALUES ('bare', '{}', 'processing', 'bench', now(), now() + interval '1 hour', 1, 1, 0, 'bench', false)
     RETURNING id`,
  );
  let n = 0;
  const write = () =>
    client.query({
      name: 'bare',
      text: BARE,
      values: [rows[0].id, 1, 'bench', ++n, `step ${n}`, '"v"'],
    });
  return {
    async write() {
      const from = now();
      for (let k = 0; k < COUNT; k++) await write();
      return (now() - from) / COUNT;
    },
    close: () => client.end(),
  };
}

export async function pace({ systems, databases, rounds, figure, fact, raw }) {
  const found = Object.fromEntries([...Object.keys(systems), 'bare'].map((name) => [name, []]));
  for (let round = 0; round < rounds(3, 1); round++) {
    for (const system of Object.values(systems)) {
      const url = await databases.fresh(system);
      const worker = await startProcess(system, url);
      const client = await system.client(url);
      // Between two runs, so both meet the same moods of the machine.
      const bare = system.name === 'holdfast' ? await openBare(url) : null;
      const input = { count: COUNT, value: 'v' };
      for (let n = 0; n < WARM + 15; n++) {
        await client.start('steps', input);
        const { from, to } = await worker.next('ended');
        const alone = await bare?.write();
        if (n < WARM) continue;
        found[system.name].push((to - from) / COUNT);
        if (bare) found.bare.push(alone);
      }
      await bare?.close();
      await client.close();
      await worker.kill();
    }
  }
  raw('pace', found);
  for (const [name, values] of Object.entries(found))
    fact(`workflows.ms_a_step_${name}`, measured(values));
  const ours = median(found.holdfast);
  const better = Math.min(median(found.dbos), median(found.openworkflow));
  ratio(figure, 'workflows.ms_a_step_to_better_peer', ours / better, '<=', 0.6);
  const toBare = pairwise(found.holdfast, found.bare);
  ratio(figure, 'workflows.ms_a_step_to_bare_insert', toBare, '<=', 1.5);
}

export function ratio(figure, label, value, sign, bar, digits = 2) {
  const holds = sign === '<=' ? value <= bar : value >= bar;
  figure(label, value.toFixed(digits), `${sign} ${bar}`, holds);
}

const RUNS = 100;
const STEPS = 20;

/** Steps a second of a hundred runs on two workers, from the first step to the end of the last run. */
export async function stepsPerSecond(system, url, { runs = RUNS, steps = STEPS } = {}) {
  const workers = await Promise.all(
    [1, 2].map(() => startProcess(system, url, { concurrency: runs / 2 })),
  );
  const client = await system.client(url);
  const input = { count: steps, value: 'v' };
  const round = async () => {
    const ended = collect(workers, 'ended', runs);
    if (system.name === 'dbos')
      for (const worker of workers) worker.send({ start: 'steps', input, count: runs / 2 });
    else await Promise.all(Array.from({ length: runs }, () => client.start('steps', input)));
    const seen = await ended;
    const from = Math.min(...seen.map((one) => one.from));
    const to = Math.max(...seen.map((one) => one.to));
    return (runs * steps) / ((to - from) / 1_000);
  };
  await round();
  const found = [await round(), await round(), await round()];
  await client.close();
  await Promise.all(workers.map((worker) => worker.kill()));
  return median(found);
}

export async function throughput({ systems, databases, rounds, figure, fact, raw }) {
  const found = Object.fromEntries(Object.keys(systems).map((name) => [name, []]));
  for (let round = 0; round < rounds(3, 1); round++)
    for (const system of Object.values(systems))
      found[system.name].push(await stepsPerSecond(system, await databases.fresh(system)));
  raw('throughput', found);
  for (const [name, values] of Object.entries(found))
    fact(`workflows.steps_per_second_${name}`, measured(values));
  const better = Math.max(median(found.dbos), median(found.openworkflow));
  const ours = median(found.holdfast) / better;
  ratio(figure, 'workflows.steps_per_second_to_better_peer', ours, '>=', 4);
}
