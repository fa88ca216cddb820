/** Many processes behind one PgBouncer: shared work, kills, drains, and a pooler that goes away. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { startEmbedded } from '../../packages/embedded/src/index.js';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { QUICK, readyWorker } from '../support/child.js';
import { groundOn, jobs } from '../support/ground.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';
import { pooledGround, sessionErrors, testPooler, VARIANTS } from './ground.js';
import { startPgbouncer } from './pgbouncer.js';

const start = testWorkers();
/** As quick, but a machine that is busy for some seconds is not taken for dead. */
const PATIENT = { ...QUICK, lease: '60s', ttl: '30s' } as const;

describe.each(VARIANTS)('PgBouncer $name', ({ settings }) => {
  const pooler = testPooler(settings);

  test('a worker here and two in other processes run every job once, and drain', async () => {
    const db = await pooledGround(pooler());
    const children = await Promise.all([1, 2].map(() => readyWorker(db.url, PATIENT)));
    const { stop, events } = start(
      db.hf,
      (worker) =>
        worker.handle(jobs.recorded, async (ctx) => {
          await db.direct.query('INSERT INTO starts VALUES ($1, $2)', [ctx.id, ctx.fenceToken]);
        }),
      PATIENT,
    );
    for (let bulk = 0; bulk < 10; bulk++) {
      await db.hf.enqueueMany(Array.from({ length: 200 }, () => jobs.recorded.item({})));
    }
    await db.completed(2_000);
    for (const child of children) child.signal('SIGTERM');
    for (const child of children) expect(await child.exited).toMatchObject({ code: 0 });
    await stop();

    const { rows } = await db.direct.query(
      'SELECT count(*)::int AS starts, count(DISTINCT job_id)::int AS jobs FROM starts',
    );
    expect(rows).toEqual([{ starts: 2_000, jobs: 2_000 }]);
    for (const told of [events, ...children.map(({ messages }) => messages)]) {
      expect(sessionErrors(told)).toEqual([]);
      expect(told.filter(({ kind }) => kind === 'lost' || kind === 'reregistered')).toEqual([]);
    }
    await db.leavesNothing();
  });

  test('a job whose process is killed runs again elsewhere, and its guarded effect happens once', async () => {
    const db = await pooledGround(pooler());
    const first = await readyWorker(db.url);
    const { id } = await db.hf.enqueue(jobs.guarded, { firstOnly: true });
    await first.hears('handling', { id, generation: 1 });
    const second = await readyWorker(db.url);

    first.signal('SIGKILL');
    await second.hears('handling', { id, generation: 2 });
    await db.completed(1);

    const effects = 'SELECT generation::int, pid FROM effects';
    expect((await db.direct.query(effects)).rows).toEqual([{ generation: 2, pid: second.pid }]);
    second.signal('SIGTERM');
    expect(await second.exited).toMatchObject({ code: 0 });
    expect(sessionErrors(second.messages)).toEqual([]);
    await db.leavesNothing();
  });
});

describe('a PgBouncer with two server connections', () => {
  const pooler = testPooler({ default_pool_size: '2' });
  const charge = job<{ n: number }>('charge');

  test('makes many transactions wait in line, and loses none', async () => {
    const db = await pooledGround(pooler());
    const { worker, events, stop } = start(
      db.hf,
      (made) =>
        made.handle(charge, (ctx) =>
          ctx.transaction(async (tx) => {
            await tx.query('INSERT INTO effects SELECT $1, $2 FROM pg_sleep(0.01)', [
              ctx.id,
              ctx.fenceToken,
            ]);
          }),
        ),
      { concurrency: 20 },
    );
    await db.hf.enqueueMany(Array.from({ length: 200 }, (_, n) => charge.item({ n })));
    await until('200 jobs are completed', () => worker.stats.completed === 200);
    await stop();
    const { rows } = await db.direct.query(
      'SELECT count(*)::int AS effects, count(DISTINCT job_id)::int AS jobs FROM effects',
    );
    expect(rows).toEqual([{ effects: 200, jobs: 200 }]);
    expect(worker.stats).toMatchObject({ failed: 0, lost: 0 });
    expect(sessionErrors(events)).toEqual([]);
    await db.leavesNothing();
  });
});

describe('a PgBouncer that is killed', () => {
  const pooler = testPooler();

  test('is missed, and the workers go on when it is back', async () => {
    const db = await pooledGround(pooler());
    const child = await readyWorker(db.url);
    const waiting = await db.hf.enqueue(jobs.late, {});
    await child.hears('handling', { id: waiting.id });

    await pooler().kill();
    await child.hears('error');
    // The handler ends while nothing can be written; its completion waits.
    child.tell({ do: 'finish', id: waiting.id });
    await pooler().start();
    const { id } = await until('enqueueing works again', () =>
      db.hf.enqueue(jobs.gated, { firstOnly: true }).catch(() => null),
    );
    await child.hears('handling', { id });
    child.tell({ do: 'finish', id });
    await db.completed(2);
    child.signal('SIGTERM');
    expect(await child.exited).toMatchObject({ code: 0 });
    await db.leavesNothing();
  });

  test('before a worker starts is waited for', async () => {
    const db = await pooledGround(pooler());
    await pooler().kill();
    const { events, worker } = start(db.hf, (made) => made.handle(jobs.noop, () => undefined));
    await until('the worker has met the outage', () => events.some(({ kind }) => kind === 'error'));
    await pooler().start();
    await until('enqueueing works', () => db.hf.enqueue(jobs.noop, {}).catch(() => null));
    await until('the job is completed', () => worker.stats.completed === 1);
  });
});

test('a server that crashes behind PgBouncer is missed, and the workers go on when it is back', async () => {
  const server = await startEmbedded({ throwaway: true });
  onTestFinished(() => server.stop());
  const pooler = await startPgbouncer(server.url);
  onTestFinished(() => pooler.stop());
  const hf = holdfast({ connectionString: pooler.through(server.url), logger: quietLogger });
  await hf.migrate();
  await hf.close();
  const db = await groundOn(pooler.through(server.url));
  const child = await readyWorker(db.url, PATIENT);
  const first = await db.hf.enqueue(jobs.late, {});
  await child.hears('handling', { id: first.id });

  await server.restart('immediate');
  child.tell({ do: 'finish', id: first.id });
  await until('enqueueing works again', () => db.hf.enqueue(jobs.noop, {}).catch(() => null));
  await db.completed(2);
  child.signal('SIGTERM');
  expect(await child.exited).toMatchObject({ code: 0 });
  expect((await child.hears('ended')).stats).toMatchObject({ completed: 2, lost: 0 });
});
