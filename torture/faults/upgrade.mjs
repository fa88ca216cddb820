// The upgrade of the engine itself, beside the faults: an old fleet on an old schema; `holdfast migrate` of this release,
// which is killed and begun anew; old and new workers beside each other, some of them set back; then only new ones, and the
// second `migrate`, which takes away what only old workers need. What happens when is decided by the seed; steps that wait
// for something take what they take.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { NEW_RELEASE, OLD_RELEASE } from '../old-release.mjs';
import { randomOf } from '../random.mjs';
import { sqlUntil } from '../server.mjs';

/** Of the time of the faults: when the first migration begins, and when the last old workers are replaced. */
const MIGRATE_AT = 0.2;
const FINISH_AT = 0.65;
/** Those of the nemesis end sessions of `migrate` too; an operator calls it again. */
const MIGRATE_TRIES = 12;
/** From the last old worker's end to the moment in which the registry says so: one that was killed while it started has a minute. */
const GONE_MS = 75_000;

/** @param {{ seed: string, seconds: number }} facts */
export async function upgradeCourse(world, { seed, seconds }) {
  const random = randomOf(`${seed}/upgrade`);
  const startedAt = Date.now();
  const at = (share) => sleep(Math.max(0, startedAt + share * seconds * 1_000 - Date.now()));
  const note = (step, facts) =>
    world.history.record('upgrade', 'note', { step, wall: Date.now(), ...facts });
  const course = { random, note, gone: [] };
  try {
    await at(MIGRATE_AT);
    note('before', { ...(await whatIsThere(world)), oldIndexes: await oldIndexes(world) });
    await migrate(world, course);
    note('migrated', { oldIndexes: await oldIndexes(world) });
    await sleep(random.integer(2_000, 5_000));
    await rollOut(world, course);
    while (Date.now() < startedAt + FINISH_AT * seconds * 1_000) {
      await sleep(random.integer(2_500, 5_000));
      // The first two stay what they are: there are workers of both releases all the time.
      const slot = random.pick(world.fleet.workers.slice(2));
      if (slot) replace(slot, random.pick([OLD_RELEASE, NEW_RELEASE]), course);
    }
    for (const slot of [...world.fleet.workers, ...world.fleet.producers]) {
      if (slot.config.release !== 'old') continue;
      replace(slot, NEW_RELEASE, course);
      await sleep(1_000);
    }
    // One that is frozen ends when it wakes up.
    await Promise.race([Promise.all(course.gone), sleep(GONE_MS)]);
    note('replaced', { oldAlive: await oldWorkersGone(world) });
    await migrate(world, course);
    note('finished', { oldIndexes: await oldIndexes(world) });
  } catch (error) {
    note('failed', { error: String(error?.stack ?? error) });
  }
}

/** One worker and one producer of the new release; the second worker stays old until the end. */
async function rollOut({ fleet }, course) {
  const [first, , ...others] = fleet.workers;
  for (const slot of [
    first,
    fleet.producers[0],
    ...others.filter(() => course.random.chance(0.5)),
  ]) {
    replace(slot, NEW_RELEASE, course);
    await sleep(1_200);
  }
}

/** It comes back with this code. A worker is stopped, or, as by a deploy that does not wait, killed. */
function replace(slot, release, { random, note, gone }) {
  gone.push(slot.ended());
  slot.config = { ...slot.config, ...release };
  const signal = slot.kind === 'producer' || random.chance(0.3) ? 'SIGKILL' : 'SIGTERM';
  note('replace', { name: slot.name, release: release.release, hit: slot.signal(signal) });
}

/** `holdfast migrate`, as an operator calls it: killed up to two times at some moment, and again until it succeeds. */
async function migrate(world, { random, note }) {
  const kills = random.integer(1, 2);
  for (let n = 1; n <= MIGRATE_TRIES; n++) {
    const killAfterMs = n <= kills ? random.integer(50, 1_200) : null;
    const ended = await cli(world, ['migrate'], killAfterMs);
    note('migrate', { n, ...ended });
    if (ended.code === 0) return;
    await sleep(300);
  }
  throw new Error(`migrate did not succeed in ${MIGRATE_TRIES} attempts`);
}

function cli({ dist, server, folder }, args, killAfterMs) {
  const child = spawn(process.execPath, [join(dist, 'cli/main.js'), ...args, '--url', server.url], {
    ...{ cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] },
  });
  const startedAt = Date.now();
  const timer = killAfterMs && setTimeout(() => child.kill('SIGKILL'), killAfterMs);
  let stderr = '';
  child.stderr.on('data', (data) => {
    stderr = (stderr + data).slice(-1_000);
  });
  return new Promise((resolve) =>
    child.once('close', (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, tookMs: Date.now() - startedAt, stderr });
    }),
  );
}

/** What the migration finds: of each kind there must be some, or the run says little. */
async function whatIsThere({ server: { url }, queues }) {
  const all = queues
    .map((queue) => `SELECT status::text, available_at, type FROM holdfast.${queue}`)
    .join(' UNION ALL ');
  const archive = queues
    .map((queue) => `SELECT 1 FROM holdfast.${queue}_archive`)
    .join(' UNION ALL ');
  const [counts] = await sqlUntil(
    url,
    `SELECT count(*) FILTER (WHERE status = 'pending')::int AS waiting,
       count(*) FILTER (WHERE status = 'pending' AND available_at > now() + interval '1 second')::int AS scheduled,
       count(*) FILTER (WHERE status = 'processing')::int AS running,
       count(*) FILTER (WHERE status = 'dead_letter')::int AS dead,
       (SELECT count(*)::int FROM holdfast.limits) AS limits,
       (SELECT count(*)::int FROM (${archive}) AS a) AS archived
     FROM (${all}) AS j`,
  );
  return counts;
}

/** Those that only workers of the old release read. */
const oldIndexes = async ({ server }) =>
  (
    await sqlUntil(
      server.url,
      `SELECT indexname AS name FROM pg_indexes WHERE schemaname = 'holdfast'
       AND (indexname = 'inbox_claim_idx' OR indexname LIKE '%\\_slot\\_idx' OR indexname LIKE '%\\_slot\\_key\\_idx')
       ORDER BY 1`,
    )
  ).map(({ name }) => name);

/** Killed ones are declared dead by those that live. How many are left after a while. */
async function oldWorkersGone({ server }) {
  const until = Date.now() + GONE_MS;
  for (;;) {
    const [{ n }] = await sqlUntil(
      server.url,
      `SELECT count(*)::int AS n FROM holdfast.workers
       WHERE status <> 'dead' AND NOT coalesce(metadata ? 'migrations', false)`,
    );
    if (n === 0 || Date.now() > until) return n;
    await sleep(250);
  }
}
