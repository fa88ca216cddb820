/** The database is crashed on purpose under a running fleet, and comes back. */
import { expect, onTestFinished, test } from 'vitest';
import { type EmbeddedServer, startEmbedded } from '../../packages/embedded/src/index.js';
import { holdfast } from '../../packages/holdfast/src/index.js';
import { Child, QUICK, readyWorker } from '../support/child.js';
import { type Ground, ground, groundOn, jobs } from '../support/ground.js';
import { Line } from '../support/line.js';
import { quietLogger } from '../support/logger.js';
import { long } from '../support/long.js';
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

const CRASHES = long(1, 2);

test('every accepted job is completed once, through crashes of the database', async () => {
  const { server, db } = await ownServer();
  const options = {
    ...QUICK,
    lease: '2s',
    renewEvery: '500ms',
    ttl: '2s',
    concurrency: 5,
  } as const;
  const workers = await Promise.all([1, 2, 3].map(() => readyWorker(server.url, options)));
  const producers = ['a', 'b'].map(
    (name) => new Child('producer', { url: server.url, name, everyMs: 15 }),
  );
  const everybody = [...workers, ...producers];
  const ended = () => everybody.filter((child) => child.exit).map((child) => child.describe());
  const newlyAccepted = async (count: number) => {
    for (const producer of producers) {
      const before = accepted(producer).length;
      await until(`${count} more accepted jobs of a producer`, () => {
        expect(ended()).toEqual([]);
        return accepted(producer).length >= before + count;
      });
    }
  };
  await newlyAccepted(50);
  for (let crash = 0; crash < CRASHES; crash++) {
    await server.restart('immediate');
    await newlyAccepted(50);
  }
  for (const producer of producers) producer.tell({ do: 'stop' });
  for (const producer of producers) expect(await producer.exited).toMatchObject({ code: 0 });
  const keys = producers.flatMap(accepted).sort();
  await db.completed(keys.length);

  // Both sides really met the crashes.
  expect(producers.every((producer) => producer.heard('error'))).toBe(true);
  expect(workers.every((worker) => worker.heard('error'))).toBe(true);
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
    `SELECT count(*)::int, count(DISTINCT job_id)::int AS jobs,
       (SELECT count(*)::int FROM holdfast.inbox_archive WHERE type = 'guarded') AS guarded
     FROM effects`,
  );
  const { guarded } = effects as { guarded: number };
  expect(effects).toEqual({ count: guarded, jobs: guarded, guarded });
}, 120_000);

test('an outage longer than the TTL costs no running job its lease', async () => {
  const db = await ground();
  const options = { ...QUICK, lease: '60s', heartbeat: '500ms', ttl: '3s' } as const;
  const lines = await Promise.all([Line.to(db.url), Line.to(db.url)]);
  for (const line of lines) await line.mend();
  const [mine, others] = lines as [Line, Line];
  const worker = await readyWorker(mine.url, options);
  const { id } = await db.hf.enqueue(jobs.gated, { firstOnly: true });
  await worker.hears('handling', { id });
  const other = await readyWorker(others.url, options);

  for (const line of lines) line.cut();
  await until('nobody has been seen for longer than the TTL', async () => {
    const text = `SELECT FROM holdfast.workers WHERE last_seen_at > now() - interval '3500 ms'`;
    return (await db.rows(text)).length === 0;
  });
  // The first one that is back keeps house, and finds that nobody was seen for long.
  const rounds = other.count('maintained');
  await others.mend();
  await until('the other one keeps house', () => other.count('maintained') > rounds);
  await mine.mend();
  worker.tell({ do: 'finish', id });
  await db.completed(1);

  expect(await db.hf.job(id)).toMatchObject({ leaseGeneration: 1, claimedBy: worker.workerId });
  expect((await worker.ask('stats')).stats).toMatchObject({ lost: 0, completed: 1 });
  expect(worker.heard('reregistered')).toBeUndefined();
});
