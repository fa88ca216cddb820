/** Services: any periodic work joins the list, and of a fleet one worker does it. */
import { expect, onTestFinished, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.js';
import { quietLogger } from '../../../test/support/logger.js';
import { until } from '../../../test/support/until.js';
import { enginePool } from '../../postgres/pool.js';
import { systemTime } from '../time.js';
import type { Service } from './service.js';
import { ServiceLoop } from './service-loop.js';

const db = testDatabase();

function loopOf(workerId: string, services: readonly Service[], reported: unknown[] = []) {
  const pool = enginePool({ connectionString: db.url }, 2, quietLogger);
  const loop = new ServiceLoop({
    enginePool: pool,
    mode: { prepare: true },
    schema: 'holdfast',
    queues: ['inbox'],
    services,
    intervalMs: 100,
    ttlMs: 30_000,
    workerId: () => workerId,
    time: systemTime,
    emit: () => undefined,
    reportError: (what, error) => void reported.push([what, (error as Error).message]),
  });
  onTestFinished(async () => {
    loop.stop();
    await pool.end();
  });
  return loop;
}

test('of three workers one runs a service in each interval', async () => {
  await db.rows('UPDATE holdfast.queues SET maintained_at = NULL');
  const rounds: { by: string; at: number }[] = [];
  const serviceOf = (by: string): Service => ({
    name: 'schedules',
    everyMs: 100,
    run: async () => rounds.push({ by, at: performance.now() }),
  });
  for (const id of ['a', 'b', 'c']) loopOf(id, [serviceOf(id)]).start();
  await until('ten rounds are done', async () => rounds.length >= 10);
  const gaps = rounds.slice(1).map(({ at }, n) => at - (rounds[n]?.at ?? 0));
  // A turn comes at most 30 % early.
  expect(Math.min(...gaps)).toBeGreaterThan(50);
});

test('a service that fails is reported and does not keep the others', async () => {
  await db.rows('UPDATE holdfast.queues SET maintained_at = NULL');
  const reported: unknown[] = [];
  let ran = 0;
  const failing: Service = {
    name: 'bad',
    everyMs: 100,
    run: () => Promise.reject(new Error('no')),
  };
  const good: Service = { name: 'good', everyMs: 100, run: async () => ++ran };
  loopOf('a', [failing, good], reported).start();
  await until('both had two turns', async () => ran >= 2 && reported.length >= 2);
  expect(reported[0]).toEqual(['bad of inbox', 'no']);
});

test('a service runs as often as it asks for, and no more often than turns come', async () => {
  await db.rows('UPDATE holdfast.queues SET maintained_at = NULL');
  const ran = { often: 0, rarely: 0 };
  const services: Service[] = [
    { name: 'often', everyMs: 100, run: async () => ++ran.often },
    { name: 'rarely', everyMs: 60_000, run: async () => ++ran.rarely },
  ];
  loopOf('a', services).start();
  await until('five turns have come', async () => ran.often >= 5);
  expect(ran.rarely).toBe(1);
});

test('a service that did as much as it may goes on in the next turn', async () => {
  await db.rows('UPDATE holdfast.queues SET maintained_at = NULL');
  const left = [100, 100, 40];
  let turns = 0;
  const services: Service[] = [
    { name: 'turns', everyMs: 100, run: async () => ++turns },
    { name: 'prune', everyMs: 60_000, atMost: 100, run: async () => left.shift() ?? 0 },
  ];
  loopOf('a', services).start();
  await until('five turns have come', async () => turns >= 5);
  expect(left).toEqual([]);
});
