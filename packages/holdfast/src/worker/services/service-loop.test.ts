/** Services: any periodic work joins the list, and of a fleet one worker does it. */
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { testDatabase } from '../../../../../test/support/database.js';
import { handClock } from '../../../../../test/support/hand-clock.js';
import { quietLogger } from '../../../../../test/support/logger.js';
import { until } from '../../../../../test/support/until.js';
import { enginePool } from '../../postgres/connect/pool.js';
import { engineExecutor } from '../../postgres/queryable.js';
import { systemTime, type Time } from '../time.js';
import { maintenanceServices } from './maintenance.js';
import type { Service } from './service-loop.js';
import { newServiceLoop } from './service-loop.js';

const db = testDatabase();

beforeEach(() => db.rows(`UPDATE holdfast.queues SET maintained_at = NULL, serviced_at = '{}'`));

interface LoopOptions {
  readonly time?: Time;
  readonly ttlMs?: number;
  readonly emit?: () => void;
}

function loopOf(
  workerId: string,
  services: readonly Service[],
  reported: unknown[] = [],
  { time = systemTime, ttlMs = 30_000, emit = () => {} }: LoopOptions = {},
) {
  const pool = enginePool({ connectionString: db.url }, 2, quietLogger);
  const loop = newServiceLoop({
    enginePool: pool,
    mode: { prepare: true },
    engine: engineExecutor(pool, { prepare: true }),
    schema: 'holdfast',
    queues: ['inbox'],
    services,
    settings: { maintenanceMs: 100, ttlMs },
    ...{ time, emit },
    workerId: () => workerId,
    reportError: (what, error) => void reported.push([what, (error as Error).message]),
  });
  onTestFinished(async () => {
    loop.stop();
    await pool.end();
  });
  return loop;
}

test('of three workers one runs a service in each interval', async () => {
  // By the database's clock: this process may be late to see a round.
  const rounds = new Set<number>();
  const service: Service = {
    name: 'schedules',
    everyMs: 100,
    async run() {
      const [row] = await db.rows<{ at: string }>(
        'SELECT extract(epoch FROM maintained_at) * 1000 AS at FROM holdfast.queues',
      );
      return rounds.add(Number(row?.at)).size;
    },
  };
  for (const id of ['a', 'b', 'c']) loopOf(id, [service]).start();
  await until('ten rounds have come', () => rounds.size >= 10);
  const at = [...rounds].sort((a, b) => a - b);
  // A round comes at most 30 % early.
  expect(Math.min(...at.slice(1).map((round, n) => round - (at[n] ?? 0)))).toBeGreaterThan(69);
});

test('a service that fails is reported and does not keep the others', async () => {
  const reported: unknown[] = [];
  let ran = 0;
  const failing: Service = {
    name: 'bad',
    everyMs: 60_000,
    run: () => Promise.reject(new Error('no')),
  };
  const good: Service = { name: 'good', everyMs: 100, run: async () => ++ran };
  loopOf('a', [failing, good], reported).start();
  await until('both had two rounds', async () => ran >= 2 && reported.length >= 2);
  expect(reported[0]).toEqual(['bad of inbox', 'no']);
});

test('a service runs as often as it asks for, and no more often than rounds come', async () => {
  const ran = { often: 0, rarely: 0 };
  const services: Service[] = [
    { name: 'often', everyMs: 100, run: async () => ++ran.often },
    { name: 'rarely', everyMs: 60_000, run: async () => ++ran.rarely },
  ];
  loopOf('a', services).start();
  await until('five rounds have come', async () => ran.often >= 5);
  expect(ran.rarely).toBe(1);
});

test('a service runs once per interval also where the elected worker changes from round to round', async () => {
  const EVERY_MS = 400;
  const rounds: string[] = [];
  const ranAt: number[] = [];
  const servicesOf = (id: string): Service[] => [
    { name: 'rounds', everyMs: 100, run: async () => rounds.push(id) },
    {
      ...{ name: 'rarely', everyMs: EVERY_MS },
      async run() {
        const [row] = await db.rows<{ at: number }>(
          `SELECT (extract(epoch FROM (serviced_at ->> 'rarely')::timestamptz) * 1000)::float8 AS at
            FROM holdfast.queues`,
        );
        return ranAt.push(row?.at as number);
      },
    },
  ];
  // Each has one round; then the other one is there, as after a deploy.
  for (let n = 0; ranAt.length < 4; n++) {
    const id = n % 2 === 0 ? 'a' : 'b';
    const loop = loopOf(id, servicesOf(id));
    loop.start();
    await until('it had a round', () => rounds.length > n);
    loop.stop();
  }
  expect(rounds.slice(0, 4)).toEqual(['a', 'b', 'a', 'b']);
  expect(rounds.length).toBeGreaterThan(2 * ranAt.length);
  // It may be as early as a round.
  const gaps = ranAt.slice(1).map((at, n) => at - (ranAt[n] as number));
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(EVERY_MS - 30 - 1);
});

test('a service that did as much as it may goes on in the next round', async () => {
  const left = [100, 100, 40];
  let rounds = 0;
  const services: Service[] = [
    { name: 'rounds', everyMs: 100, run: async () => ++rounds },
    { name: 'prune', everyMs: 60_000, atMost: 100, run: async () => left.shift() ?? 0 },
  ];
  loopOf('a', services).start();
  await until('five rounds have come', async () => rounds >= 5);
  expect(left).toEqual([]);
});

test('a worker that has just started declares nobody dead: the others may be on their way back from an outage', async () => {
  await db.rows(`INSERT INTO holdfast.workers (id, last_seen_at)
    VALUES ('silent', now() - interval '1 minute')`);
  const { time, advance } = handClock();
  let rounds = 0;
  const emit = () => void rounds++;
  const recovery = { recoverAll: async () => 0, clearAll: async () => 0 };
  const services = maintenanceServices(100, recovery, () => {});
  const loop = loopOf('new', services, [], { time, emit, ttlMs: 500 });
  const statusAfter = async (ms: number) => {
    await db.rows('UPDATE holdfast.queues SET maintained_at = NULL');
    const before = rounds;
    advance(ms);
    await until('a round is done', () => rounds > before);
    return db.rows(`SELECT status FROM holdfast.workers WHERE id = 'silent'`);
  };
  loop.start();
  expect(await statusAfter(0)).toEqual([{ status: 'alive' }]);
  expect(await statusAfter(400)).toEqual([{ status: 'alive' }]);
  expect(await statusAfter(200)).toEqual([{ status: 'dead' }]);
});
