// What a million waiting runs cost the others.
import pg from 'pg';
import { vacuum } from '../databases.mjs';
import { measured, median } from '../statistics.mjs';
import { collect, startProcess } from './process.mjs';
import { ratio, stepsPerSecond } from './steps.mjs';

const JOBS = 5_000;

/** Written as a suspension leaves them: half wait for a signal only, half have a time-out as well. */
async function fill(url, count) {
  const admin = new pg.Client({ connectionString: url });
  admin.on('error', () => {});
  await admin.connect();
  await admin.query(
    `WITH runs AS (
       INSERT INTO holdfast.inbox (type, payload, available_at, wait_until, partition_bucket, partition_key, parked)
       SELECT 'approval', '{}', w.at, w.at, n % 1024, 'run:' || n, false
       FROM generate_series(1, $1::int) AS n,
         LATERAL (SELECT CASE WHEN n % 2 = 0 THEN timestamptz '9999-12-31' ELSE now() + n * interval '1 second' + interval '1 day' END) AS w(at)
       RETURNING id, available_at)
     INSERT INTO holdfast.inbox_steps (run_id, nth, due_at, kind, name, value)
     SELECT r.id, 1, nullif(r.available_at, '9999-12-31'), 'w', 'approval', '["approved"]' FROM runs AS r`,
    [count],
  );
  await vacuum(url, 'holdfast');
  // Nothing of the filling is left to be written while it is measured.
  await admin.query('CHECKPOINT');
  await admin.end();
}

/** Jobs a second of one worker, from the first hundred to the last. */
async function jobsPerSecond(system, url) {
  const worker = await startProcess(system, url);
  const client = await system.client(url);
  const found = [];
  for (let n = 0; n < 4; n++) {
    const told = collect([worker], 'plain', JOBS / 100);
    await client.plain(JOBS);
    const seen = await told;
    if (n > 0) found.push((JOBS - 100) / ((seen.at(-1).at - seen[0].at) / 1_000));
  }
  await client.close();
  await worker.kill();
  return median(found);
}

export async function waiting({
  systems: { holdfast: system },
  databases,
  size,
  rounds,
  figure,
  fact,
}) {
  const runs = size(1_000_000, 100_000);
  const found = { alone: { jobs: [], steps: [] }, beside: { jobs: [], steps: [] } };
  for (let round = 0; round < rounds(3, 1); round++)
    for (const kind of ['alone', 'beside']) {
      const url = await databases.fresh(system);
      if (kind === 'beside') await fill(url, runs);
      found[kind].jobs.push(await jobsPerSecond(system, url));
      found[kind].steps.push(await stepsPerSecond(system, url));
    }
  for (const [kind, { jobs, steps }] of Object.entries(found)) {
    fact(`workflows.jobs_per_second_${kind}`, measured(jobs));
    fact(`workflows.steps_per_second_${kind}`, measured(steps));
  }
  const cost = (what) => median(found.alone[what]) / median(found.beside[what]);
  fact('workflows.waiting_runs', runs.toLocaleString('en'));
  ratio(figure, 'workflows.job_beside_waiting_runs', cost('jobs'), '<=', 1.1);
  ratio(figure, 'workflows.step_beside_waiting_runs', cost('steps'), '<=', 1.1);
}
