/** onDeadLetter while it is rolled out: workers that do not know it go on, and their dead letters tell nobody. */
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { type DeadJob, holdfast, job } from '../../packages/holdfast/src/index.js';
import { Child, QUICK } from '../support/child.js';
import { emptyDatabases } from '../support/empty-database.js';
import { quietLogger } from '../support/logger.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';
import { makeOldSchema } from '../support/upgrade/old-schema.js';

const makeDatabase = emptyDatabases();
const mended = job('mended', { maxAttempts: 1 });
const tell = job<DeadJob>('tell');

async function oldGround() {
  const url = await makeDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  const hf = holdfast({ connectionString: url, logger: quietLogger });
  onTestFinished(async () => {
    await hf.close();
    await pool.end();
  });
  await makeOldSchema(pool, ['orders', 'fair']);
  await pool.query(
    `UPDATE holdfast.queues SET ordering = 'key_strict' WHERE name = 'orders';
     UPDATE holdfast.queues SET ordering = 'turns', per_key = 2, fair = true WHERE name = 'fair'`,
  );
  const rows = async (text: string) => (await pool.query(text)).rows;
  return {
    ...{ hf, rows },
    oldWorker: async () => {
      const child = new Child('upgrade-worker', { url, release: 'old', options: QUICK });
      await child.hears('started');
      return child;
    },
    newWorker: async () => {
      let started = false;
      const worker = hf.worker({
        ...{ ...QUICK, handleSignals: false },
        onEvent({ kind }) {
          if (kind === 'started') started = true;
        },
      });
      worker.handle(job('mended', { maxAttempts: 1, onDeadLetter: tell }), () => {
        throw new Error('The new release cannot do it either.');
      });
      const running = worker.run();
      onTestFinished(() => worker.stop({ grace: 0 }));
      await until('the new worker has started', () => started);
      return { stop: () => worker.stop().then(() => running) };
    },
    died: (count: number) =>
      until(`${count} dead letters`, async () => {
        const text = `SELECT FROM holdfast.inbox WHERE status = 'dead_letter'`;
        return (await rows(text)).length === count;
      }),
    told: async () =>
      (await rows(`SELECT payload ->> 'id' AS id FROM holdfast.inbox WHERE type = 'tell'`)).map(
        ({ id }) => id as string,
      ),
  };
}

const stopped = async (child: Child) => {
  child.signal('SIGTERM');
  expect(await child.exited, child.describe()).toMatchObject({ code: 0 });
};

test.each(long(['old'], ['old', 'new']))('the %s worker starts first', async (first) => {
  const db = await oldGround();
  const early = first === 'old' ? await db.oldWorker() : null;
  await db.hf.migrate();
  const fresh = await db.newWorker();
  const old = early ?? (await db.oldWorker());
  // The old one takes it with the rights and functions of now.
  await fresh.stop();
  await db.hf.enqueue(mended, {});
  await db.died(1);
  expect(await db.told()).toEqual([]);
  await stopped(old);

  await db.newWorker();
  const { id } = await db.hf.enqueue(mended, {});
  await db.died(2);
  expect(await db.told()).toEqual([id]);
});

test('a role that works has what it needs after the migration, and whoever looks may look', async () => {
  const db = await oldGround();
  const tag = `hook_${Date.now()}`;
  await db.rows(`CREATE ROLE ${tag}_w; CREATE ROLE ${tag}_v;
    GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.rates TO ${tag}_w; GRANT SELECT ON holdfast.rates TO ${tag}_v`);
  await db.hf.migrate();
  const rights = (role: string) =>
    db.rows(`SELECT string_agg(privilege_type, ' ' ORDER BY privilege_type) AS may FROM information_schema.table_privileges
      WHERE table_name = 'on_dead_letter' AND grantee = '${role}'`);
  expect(await rights(`${tag}_w`)).toEqual([{ may: 'DELETE INSERT SELECT UPDATE' }]);
  expect(await rights(`${tag}_v`)).toEqual([{ may: 'SELECT' }]);
  await db.rows(`DROP OWNED BY ${tag}_w, ${tag}_v; DROP ROLE ${tag}_w, ${tag}_v`);
});
