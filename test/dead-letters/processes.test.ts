/** Death where processes, lines and databases die too: it is told, and told once. */
import { expect, onTestFinished, test } from 'vitest';
import { startEmbedded } from '../../packages/embedded/src/index.js';
import { type DeadJob, holdfast, job } from '../../packages/holdfast/src/index.js';
import { Child, QUICK, readyWorker } from '../support/child.js';
import { type Ground, ground, groundOn } from '../support/ground.js';
import { heldLine } from '../support/held-line.js';
import { quietLogger } from '../support/logger.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';

const DEAD = `SELECT id FROM holdfast.inbox WHERE status = 'dead_letter' ORDER BY id`;
const TOLD = `SELECT payload ->> 'id' AS id FROM holdfast.inbox WHERE type = 'tell' ORDER BY 1`;
const doomed = job('doomed', { maxAttempts: 1 });
const broken = job('broken', { maxAttempts: 1 });

async function hookWorker(db: Ground, config: { tells?: boolean; url?: string } = {}) {
  const child = new Child('hook-worker', { url: db.url, options: QUICK, ...config });
  await child.hears('started');
  return child;
}

test('SIGKILL in the last attempt, recovered by a process that has never heard of the definition', async () => {
  const db = await ground();
  const { id } = await db.hf.enqueue(doomed, {});
  // It has crashed often, so it runs alone, and the next crash costs its attempt.
  await db.rows('UPDATE holdfast.inbox SET crashes = 4');
  const victim = await hookWorker(db);
  await victim.hears('handling', { id });
  await readyWorker(db.url);
  victim.signal('SIGKILL');
  await until('it is a dead letter', async () => (await db.rows(DEAD)).length === 1);
  expect(
    await db.rows(`${TOLD.replace('AS id', `AS id, payload ->> 'outcome' AS outcome`)}`),
  ).toEqual([{ id, outcome: 'vanished' }]);
});

test('the answer to the settle is lost, and the worker asks again', async () => {
  const db = await ground();
  const line = await heldLine(db.url, { names: /holdfast/, from: /'failed', 'error'/ });
  const hf = holdfast({ connectionString: line.url, logger: quietLogger });
  const onDeadLetter = job<DeadJob>('tell');
  const worker = hf.worker({ ...QUICK, handleSignals: false, ttl: '30s' });
  worker.handle(job('broken', { maxAttempts: 1, onDeadLetter }), () => {
    throw new Error('It is broken.');
  });
  onTestFinished(async () => {
    line.release();
    await worker.stop({ grace: 0 });
    await hf.close();
  });
  void worker.run();
  const { id } = await db.hf.enqueue(broken, {});
  await until('it is a dead letter', async () => (await db.rows(DEAD)).length === 1);
  expect([line.kept, worker.stats.dead_letter]).toEqual([1, 0]);
  await db.rows(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
       AND query LIKE '%''failed'', ''error''%' AND pid <> pg_backend_pid()`,
  );
  line.release();
  await until('the worker knows it', () => worker.stats.dead_letter === 1);
  expect(worker.stats.lost).toBe(0);
  expect(await db.rows(TOLD)).toEqual([{ id }]);
});

test('the database crashes while jobs die: as many are told of as have died, each once', async () => {
  const server = await startEmbedded({ throwaway: true });
  onTestFinished(() => server.stop());
  const setup = holdfast({ connectionString: server.url, logger: quietLogger });
  await setup.migrate();
  await setup.close();
  const db = await groundOn(server.url);
  await db.rows('CREATE TABLE told (id uuid)');
  const held = await db.hf.enqueue(doomed, {});
  const waiting = await hookWorker(db);
  await waiting.hears('handling', { id: held.id });
  const tellers = [await hookWorker(db, { tells: true }), await hookWorker(db, { tells: true })];
  const ids = [held.id];
  const count = long(40, 200);
  const load = async () => {
    const items = Array.from({ length: count }, () => broken.item({}));
    ids.push(...(await db.hf.enqueueMany(items)).map(({ id }) => id));
  };
  for (let crash = 0; crash < 2; crash++) {
    await load();
    await until('some have died', async () => (await db.rows(DEAD)).length > crash * count + 3);
    await server.restart('immediate');
    if (crash === 0) waiting.tell({ do: 'finish' });
  }
  await until('all have died', async () => (await db.rows(DEAD)).length === ids.length);
  const told = 'SELECT id FROM told ORDER BY id';
  await until('all are told of', async () => (await db.rows(told)).length >= ids.length);
  expect(await db.rows(told)).toEqual(ids.sort().map((id) => ({ id })));
  expect(await db.rows(TOLD)).toEqual([]);
  for (const child of [waiting, ...tellers]) child.signal('SIGTERM');
  for (const child of [waiting, ...tellers])
    expect(await child.exited, child.describe()).toMatchObject({ code: 0 });
}, 120_000);
