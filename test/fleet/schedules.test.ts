/**
 * One job a tick, written by a fleet of real processes: whoever writes the ticks is killed or frozen again and again,
 * and the database crashes in between. In full ten workers write ten thousand ticks.
 */
import { expect, onTestFinished, test } from 'vitest';
import { startEmbedded } from '../../packages/embedded/src/index.js';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { QUICK } from '../support/child.js';
import { type FleetWorker, fleetOf, fleetWorker } from '../support/fleet.js';
import { type Ground, groundOn } from '../support/ground.js';
import { quietLogger } from '../support/logger.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';

const WORKERS = long(2, 10);
const SCHEDULES = long(20, 100);
const TICKS = long(40, 10_000);
/** Of so many rounds one crashes the database. */
const CRASH_EVERY = long(1, 8);
const OPTIONS = { options: { ...QUICK, poll: '200ms' }, handles: { noop: 1 } } as const;
const beat = job<object>('noop');

const TICKED =
  'SELECT coalesce(sum(ticks), 0)::int AS n, sum(missed)::int AS missed FROM holdfast.schedules';

/** Schedules with an instant that is no job, or two. */
const WRONG = `
WITH jobs AS (
  SELECT headers ->> 'holdfast_schedule' AS name, headers ->> 'holdfast_scheduled_at' AS at FROM holdfast.inbox
  UNION ALL
  SELECT headers ->> 'holdfast_schedule', headers ->> 'holdfast_scheduled_at' FROM holdfast.inbox_archive
), each AS (
  SELECT name, count(*)::int AS jobs, count(DISTINCT at)::int AS instants,
    extract(epoch FROM max(at)::timestamptz - min(at)::timestamptz)::int + 1 AS seconds
  FROM jobs GROUP BY name
)
SELECT e.*, s.ticks::int AS ticks FROM each AS e JOIN holdfast.schedules AS s USING (name)
WHERE NOT (e.jobs = e.instants AND e.jobs = e.seconds AND e.jobs = s.ticks)`;

async function ownServer() {
  const server = await startEmbedded({ throwaway: true });
  onTestFinished(() => server.stop());
  const hf = holdfast({ connectionString: server.url, logger: quietLogger });
  await hf.migrate();
  await hf.close();
  return { server, db: await groundOn(server.url) };
}

/** A connection of this process may be of before the crash. */
const ask = <Row extends object>(db: Ground, text: string) =>
  until('the database answers', () => db.rows<Row>(text).catch(() => null));

const ticked = async (db: Ground) => (await ask<{ n: number }>(db, TICKED))[0]?.n as number;

/** The one that writes the ticks now. */
async function writerOf(db: Ground, fleet: readonly FleetWorker[]): Promise<FleetWorker> {
  const alive = `SELECT id FROM holdfast.workers WHERE status = 'alive' ORDER BY id COLLATE "C" LIMIT 1`;
  const [row] = await ask<{ id: string }>(db, alive);
  return fleet.find(({ workerId }) => workerId === row?.id) ?? (fleet[0] as FleetWorker);
}

const isDead = (db: Ground, { workerId }: FleetWorker) =>
  until(`${workerId} is declared dead`, async () => {
    const text = `SELECT status FROM holdfast.workers WHERE id = '${workerId}'`;
    return (await ask<{ status: string }>(db, text))[0]?.status === 'dead';
  });

test(
  'every tick is one job, whoever is killed, frozen or restarted',
  async () => {
    const { server, db } = await ownServer();
    const set = Object.fromEntries(
      Array.from({ length: SCHEDULES }, (_, n) => [
        `s${n}`,
        { every: '1s', job: beat, payload: {}, catchUp: 'all' } as const,
      ]),
    );
    let fleet = await fleetOf(WORKERS, server.url, OPTIONS);
    await db.hf.schedules.declare('test', set);
    let crashes = 0;
    for (let round = 1; (await ticked(db)) < TICKS || crashes === 0; round++) {
      const before = await ticked(db);
      const victim = await writerOf(db, fleet);
      victim.signal(round % 3 === 0 ? 'SIGSTOP' : 'SIGKILL');
      const joined = await fleetWorker(server.url, OPTIONS);
      if (round % CRASH_EVERY === 0) {
        crashes++;
        await server.restart('immediate');
      }
      await until('another writes ticks', async () => (await ticked(db)) >= before + 2 * SCHEDULES);
      if (round % 3 === 0) {
        await isDead(db, victim);
        // It wakes up, perhaps in the middle of its statement, and finds that it was given up.
        victim.signal('SIGCONT');
        await victim.hears('reregistered');
      }
      victim.signal('SIGKILL');
      fleet = [...fleet.filter((one) => one !== victim), joined];
    }
    await ask(db, 'UPDATE holdfast.schedules SET paused = true');
    await until(
      'all jobs ran',
      async () => (await ask(db, 'SELECT FROM holdfast.inbox')).length === 0,
    );
    expect(await ask(db, WRONG)).toEqual([]);
    const [sum] = await ask<{ n: number; missed: number }>(db, TICKED);
    expect(sum?.n).toBeGreaterThanOrEqual(TICKS);
    expect(sum?.missed).toBe(0);
  },
  long(120_000, 1_800_000),
);
