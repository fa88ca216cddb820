/**
 * Permits and rates with real workers where it is hard: one that is killed gives its permits back, one that is busy says
 * what it has given back, one of version 0.1 is counted, and rates with keys hold in every ordering.
 */
import { beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { Child, QUICK } from '../support/child.js';
import { claimByTime } from '../support/claiming.js';
import { testDatabase } from '../support/database.js';
import { ground } from '../support/ground.js';
import { mostWithin, NOTE_STARTS, type NotedStart, STARTS } from '../support/limited.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();

beforeEach(async () => {
  for (const table of [
    'limits',
    'permits',
    'rates',
    'inbox',
    'inbox_claims',
    'inbox_archive',
    'workers',
  ])
    await db.rows(`DELETE FROM holdfast.${table}`);
});

const started = ({ events }: ReturnType<typeof start>) =>
  until('it runs', () => events.some(({ kind }) => kind === 'started'));

test('a process that is killed gives its permits back within three seconds', async () => {
  const on = await ground();
  await on.pool.query(`CREATE TABLE witness (job uuid, generation bigint, pid integer,
    started timestamptz NOT NULL DEFAULT clock_timestamp(), ended timestamptz, PRIMARY KEY (job, generation))`);
  const limited = job<{ ms: number }>('limited');
  const options = { ...QUICK, concurrency: 4 };
  const worker = async () => {
    const child = new Child('limit-worker', { url: on.url, options, limit: { concurrency: 2 } });
    await child.hears('started');
    return child;
  };
  const running = async (pid: number) =>
    (await on.rows('SELECT FROM witness WHERE pid = $1 AND ended IS NULL', [pid])).length;
  const first = await worker();
  await on.hf.enqueueMany(Array.from({ length: 6 }, () => limited.item({ ms: 60_000 })));
  await until('it holds both', async () => (await running(first.pid)) === 2);
  const second = await worker();
  const held = await on.rows<{ held: number }>(
    'SELECT sum(held)::int AS held FROM holdfast.permits',
  );
  expect(held).toEqual([{ held: 2 }]);
  expect(await running(second.pid)).toBe(0);
  first.signal('SIGKILL');
  const killed = performance.now();
  await until('the other has both', async () => (await running(second.pid)) === 2, { everyMs: 10 });
  // Its session is gone at once, and with it its lock; the fleet looks every 200 ms.
  expect(performance.now() - killed).toBeLessThan(3_000);
});

test('a worker without room says which permits it has given back', async () => {
  const held = job<{ n: number }>('held', { limit: { concurrency: 2 } });
  const busy = job<{ n: number }>('busy');
  const [helds, busies] = [gate(), gate()];
  const ran: string[] = [];
  const worker = (name: string, concurrency: number) =>
    start(
      db.hf,
      (w) =>
        w
          .handle(held, async ({ payload }) => {
            ran.push(`${name} ${payload.n}`);
            if (payload.n < 2) await helds.opened;
          })
          .handle(busy, async () => busies.opened),
      { concurrency, prefetch: 0, poll: '200ms' },
    );
  await started(worker('one', 4));
  await db.hf.enqueueMany([0, 1].map((n) => held.item({ n })));
  await until('it holds both permits', () => ran.length === 2);
  // More than it has room for: as soon as permits are free, so are handlers, and they are taken at once.
  await db.hf.enqueueMany(Array.from({ length: 20 }, (_, n) => busy.item({ n })));
  await until('it is full', async () => {
    const rows = await db.rows(
      `SELECT FROM holdfast.inbox WHERE type = 'busy' AND status = 'processing'`,
    );
    return rows.length === 2;
  });
  helds.open();
  await until('it is full of others', async () => {
    const rows = await db.rows(
      `SELECT FROM holdfast.inbox WHERE type = 'busy' AND status = 'processing'`,
    );
    return rows.length === 4;
  });
  await db.hf.enqueueMany([2, 3].map((n) => held.item({ n })));
  const other = start(
    db.hf,
    (w) => w.handle(held, ({ payload }) => void ran.push(`two ${payload.n}`)),
    {
      poll: '200ms',
    },
  );
  await started(other);
  const began = performance.now();
  await until('another has used them', () => ran.includes('two 2') && ran.includes('two 3'));
  expect(performance.now() - began).toBeLessThan(2_000);
  busies.open();
});

test('jobs of a worker that says nothing of permits, as those of version 0.1, are counted', async () => {
  const held = job<{ n: number }>('held', { limit: { concurrency: 3 } });
  await db.rows(
    `INSERT INTO holdfast.workers (id, handles) VALUES ('old', '{"inbox": {"held": 1}}')`,
  );
  await db.hf.enqueueMany([0, 1, 2, 3, 4].map((n) => held.item({ n })));
  const { jobs } = await claimByTime(db.engine, 'old', { versions: { held: 1 }, limit: 2 });
  expect(jobs).toHaveLength(2);
  const { opened, open } = gate();
  let running = 0;
  const worker = start(db.hf, (w) =>
    w.handle(held, async () => {
      running++;
      await opened;
    }),
  );
  await until('it waits', () => worker.events.some(({ kind }) => kind === 'throttled'));
  expect(running).toBe(1);
  expect(await db.rows(`SELECT FROM holdfast.permits WHERE worker_id = 'old'`)).toEqual([]);
  // It dies: what it held is free, and its jobs are taken over.
  await db.rows(`UPDATE holdfast.workers SET status = 'dead' WHERE id = 'old'`);
  await until('three run', () => running === 3);
  open();
});

describe.each([
  ['none', {}],
  ['key', { ordering: 'key' }],
  ['turns', { perKey: 2, fair: true }],
] as const)('a rate with keys, ordering %s', (name, settings) => {
  const KEYS = long(500, 2_000);

  test(`holds for each of ${KEYS} keys, and none waits for another`, async () => {
    const queue = `rates_${name}`;
    await db.hf.createQueue(queue, settings as never);
    await db.rows(
      NOTE_STARTS.replaceAll('claims_noted', `noted_${name}`)
        .replaceAll('note_start', `note_${name}`)
        .replace('holdfast.inbox', `holdfast.${queue}`),
    );
    const rate = {
      limit: 2,
      per: '1s' as const,
      burst: 1,
      key: ({ tenant }: { tenant: string }) => tenant,
    };
    const paced = job<{ n: number; tenant: string }>('paced', { queue, limit: { rate } });
    for (let n = 0; n < 2; n++)
      await started(start(db.hf, (w) => w.handle(paced, () => undefined), { concurrency: 20 }));
    const items = Array.from({ length: KEYS }, (_, n) => {
      const tenant = `t${n}`;
      return paced.item({ n, tenant }, { partitionKey: tenant });
    });
    // One of them has many.
    const large = Array.from({ length: 6 }, (_, n) =>
      paced.item({ n, tenant: 't0' }, { partitionKey: 't0' }),
    );
    await db.hf.enqueueMany(large);
    for (let from = 0; from < KEYS; from += 1_000)
      await db.hf.enqueueMany(items.slice(from, from + 1_000));
    await until('all have run', async () => {
      const [row] = await db.rows(`SELECT count(*)::int AS n FROM holdfast.${queue}`);
      return row?.n === 0;
    });
    const noted = `noted_${name}`;
    const starts = await db.rows<NotedStart>(
      `${STARTS.replace('claims_noted', noted)} WHERE key = 't0'`,
    );
    expect(starts).toHaveLength(7);
    expect(mostWithin(starts, 490)).toBe(1);
    // Others were done long before the large one, which takes three seconds.
    const [others] = await db.rows(`SELECT count(*)::int AS n FROM ${noted}
      WHERE key <> 't0' AND at < (SELECT max(at) FROM ${noted} WHERE key = 't0')`);
    expect(others?.n as number).toBeGreaterThan(0.95 * KEYS);
  }, 60_000);
});
