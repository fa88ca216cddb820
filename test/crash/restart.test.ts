/** The database is crashed on purpose under a running fleet, and comes back. */
import { expect, onTestFinished, test } from 'vitest';
import { type EmbeddedServer, startEmbedded } from '../../src/embedded/index.js';
import { holdfast } from '../../src/index.js';
import { Child, QUICK, readyWorker } from '../support/child.js';
import { type Ground, groundOn, jobs } from '../support/ground.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';

async function ownServer(): Promise<{ server: EmbeddedServer; db: Ground }> {
  const server = await startEmbedded({ throwaway: true });
  onTestFinished(() => server.stop());
  const hf = holdfast({ connectionString: server.url, logger: quietLogger });
  await hf.migrate();
  await hf.close();
  return { server, db: await groundOn(server.url) };
}

function accepted(producer: Child): string[] {
  const messages = producer.messages.filter(({ kind }) => kind === 'accepted');
  return messages.flatMap(({ keys }) => keys ?? []);
}

test('every accepted job is completed once, through two crashes of the database', async () => {
  const { server, db } = await ownServer();
  const options = {
    ...QUICK,
    lease: '2s',
    renewEvery: '500ms',
    ttl: '2s',
    concurrency: 5,
  } as const;
  const workers = await Promise.all([1, 2, 3, 4].map(() => readyWorker(server.url, options)));
  const producers = ['a', 'b'].map(
    (name) => new Child('producer', { url: server.url, name, type: 'guarded' }),
  );
  const everybody = [...workers, ...producers];
  const alive = () => everybody.filter((child) => child.exit).map((child) => child.describe());
  const newlyAccepted = async (count: number) => {
    for (const producer of producers) {
      const before = accepted(producer).length;
      await until(`${count} more accepted jobs of a producer`, () => {
        expect(alive()).toEqual([]);
        return accepted(producer).length >= before + count;
      });
    }
  };
  await newlyAccepted(100);
  for (let crash = 0; crash < 2; crash++) {
    await server.restart('immediate');
    await newlyAccepted(100);
  }
  for (const producer of producers) producer.tell({ do: 'stop' });
  for (const producer of producers) expect(await producer.exited).toMatchObject({ code: 0 });
  const keys = producers.flatMap(accepted).sort();
  await db.completed(keys.length);

  // Both sides really met the crashes.
  expect(producers.every((producer) => producer.heard('trouble'))).toBe(true);
  expect(workers.every((worker) => worker.heard('trouble'))).toBe(true);
  for (const worker of workers) worker.signal('SIGTERM');
  for (const worker of workers)
    expect(await worker.exited, worker.describe()).toMatchObject({ code: 0 });
  const archive = await db.rows<{ key: string; status: string }>(
    'SELECT idempotency_key AS key, status::text FROM holdfast.inbox_archive',
  );
  expect(archive.map(({ key }) => key).sort()).toEqual(keys);
  expect(archive.filter(({ status }) => status !== 'completed')).toEqual([]);
  expect(await db.rows('SELECT id FROM holdfast.inbox')).toEqual([]);
  const [effects] = await db.rows(
    'SELECT count(*)::int, count(DISTINCT job_id)::int AS jobs FROM effects',
  );
  expect(effects).toEqual({ count: keys.length, jobs: keys.length });
}, 120_000);

test('an outage longer than the TTL costs no running job its lease', async () => {
  const { server, db } = await ownServer();
  const options = { ...QUICK, lease: '60s', renewEvery: '300ms' } as const;
  const workers = await Promise.all([1, 2].map(() => readyWorker(server.url, options)));
  const { id } = await db.hf.enqueue(jobs.gated, { firstOnly: true });
  const owner = await until('the job is started', () =>
    workers.find((worker) => worker.heard('handling', { id })),
  );
  await server.restart('immediate');
  const [{ restarted }] = (await db.rows('SELECT now()::text AS restarted')) as [
    { restarted: string },
  ];
  for (const { workerId } of workers) {
    await until('the worker is seen again, or declared dead', async () => {
      const text = `SELECT FROM holdfast.workers
        WHERE id = $1 AND (status = 'dead' OR last_seen_at > $2::timestamptz + interval '1 second')`;
      return (await db.rows(text, [workerId, restarted])).length > 0;
    });
  }
  owner.tell({ do: 'finish', id });
  await db.completed(1);
  expect(await db.hf.find(id)).toMatchObject({ leaseGeneration: 1, claimedBy: owner.workerId });
  expect((await owner.ask('stats')).stats).toMatchObject({ lost: 0, completed: 1 });
}, 60_000);
