/**
 * The upgrade: a database of the release that knew migration 1 only is brought forward while its workers run, then
 * workers of this release join. The old release is a bundle of its compiled code (support/upgrade).
 */
import pg from 'pg';
import { expect, test } from 'vitest';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { MIGRATIONS } from '../../packages/holdfast/src/schema/migrations.js';
import { Child, QUICK } from '../support/child.js';
import { emptyDatabases } from '../support/empty-database.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { makeOldSchema, oldQueueText } from '../support/upgrade/old-schema.js';

const makeDatabase = emptyDatabases();
const OLD = new URL('../support/upgrade/holdfast-53a3d42.mjs', import.meta.url).href;
const QUEUES = ['inbox', 'orders', 'fair'];

const work = job<{ n?: number }>('work');
const limited = job<{ n?: number }>('limited');
const ordered = job<{ n: number }>('ordered', { queue: 'orders' });
const shared = job<{ n: number }>('shared', { queue: 'fair' });
const hold = job('hold');
const mended = job('mended', { maxAttempts: 1 });

const each = <Item>(count: number, make: (n: number) => Item): Item[] =>
  Array.from({ length: count }, (_, n) => make(n));

test('old workers go on while the schema is migrated, new ones join, and every job ends once', async () => {
  const url = await makeDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  const rows = async (text: string) => (await pool.query(text)).rows;
  const count = async (text: string) =>
    Number((await rows(`SELECT count(*) FROM ${text}`))[0].count);
  const old: { holdfast: typeof holdfast } = await import(OLD);
  await using before = old.holdfast({ connectionString: url, logger: quietLogger });
  await using hf = holdfast({ connectionString: url, logger: quietLogger });
  const start = async (release: 'old' | 'new') => {
    const child = new Child('upgrade-worker', { url, release, options: QUICK });
    await child.hears('started');
    return child;
  };
  const ids: string[] = [];
  const enqueue = async (by: typeof hf, items: Parameters<typeof hf.enqueueMany>[0]) => {
    ids.push(...(await by.enqueueMany(items)).map(({ id }) => id));
  };
  let order = 0;
  /** Of every kind some; in `orders` numbered by key. */
  const load = async (by: typeof hf) => {
    await enqueue(
      by,
      each(40, (n) => work.item({ n })),
    );
    await enqueue(
      by,
      each(25, (n) => limited.item({ n })),
    );
    await enqueue(
      by,
      each(30, () => ordered.item({ n: order++ }, { partitionKey: `k${order % 5}` })),
    );
    await enqueue(
      by,
      each(30, (n) => shared.item({ n }, { partitionKey: `k${n % 3}` })),
    );
    await enqueue(
      by,
      each(10, () => work.item({}, { delay: '4s' })),
    );
  };
  try {
    await makeOldSchema(pool, ['orders', 'fair']);
    await pool.query(`
      CREATE TABLE done (at timestamptz DEFAULT clock_timestamp(), job uuid, release text, key text, n integer);
      UPDATE holdfast.queues SET ordering = 'key_strict' WHERE name = 'orders';
      UPDATE holdfast.queues SET ordering = 'turns', per_key = 2, fair = true WHERE name = 'fair'`);

    // The old release at work: jobs that wait, run, are dead, have ended, wait for a slot or a time, and suspects.
    await load(before);
    await enqueue(before, [hold.item({}), hold.item({}), mended.item({})]);
    const keyed = await before.enqueue(work, { n: 1 }, { idempotencyKey: 'once' });
    ids.push(keyed.id);
    await pool.query(
      `UPDATE holdfast.inbox SET crashes = 2 WHERE id IN (SELECT id FROM holdfast.inbox WHERE type = 'work' LIMIT 3)`,
    );
    const first = await start('old');
    await until('the old worker holds its jobs', () => first.count('holds') === 2);
    await until('a dead letter', async () => count(`holdfast.inbox WHERE status = 'dead_letter'`));
    await until('a finished job', async () => count('holdfast.inbox_archive'));

    await load(before);
    await until('a slot of a rate', async () => count('holdfast.inbox WHERE limit_slot > now()'));
    await hf.migrate();
    expect(await count(`holdfast.inbox WHERE type = 'hold' AND status = 'processing'`)).toBe(2);

    // The old release goes on: it enqueues, starts anew, and neither applies nor replaces anything.
    const functions = 'SELECT name, checksum, applied_at FROM holdfast.functions ORDER BY name';
    const replaced = await rows(functions);
    expect(await before.migrate()).toMatchObject(
      MIGRATIONS.map(({ id }) => ({ id, known: id === 1 })),
    );
    expect(await rows(functions)).toEqual(replaced);
    await load(before);
    expect((await before.enqueue(work, { n: 1 }, { idempotencyKey: 'once' })).id).toBe(keyed.id);
    const second = await start('old');

    // The new one joins.
    const joined = await start('new');
    await load(hf);
    expect((await hf.enqueue(work, { n: 1 }, { idempotencyKey: 'once' })).id).toBe(keyed.id);
    await until(
      'both releases have worked beside each other',
      async () => (await count(`done WHERE release = 'new'`)) > 10,
    );
    first.tell({ do: 'finish' });
    for (const child of [first, second]) {
      child.signal('SIGTERM');
      expect(await child.exited).toMatchObject({ code: 0 });
    }
    await load(hf);
    const [dead] = await rows(`SELECT id FROM holdfast.inbox WHERE type = 'mended'`);
    expect(await hf.retry([dead.id])).toEqual([dead.id]);

    await until('every job has ended', async () => {
      const left = await Promise.all(QUEUES.map((queue) => count(`holdfast.${queue}`)));
      return left.every((jobs) => jobs === 0);
    });
    joined.signal('SIGTERM');
    expect(await joined.exited).toMatchObject({ code: 0 });
    const ran = (await rows('SELECT job FROM done')).map((row) => row.job as string);
    expect(ran.sort()).toEqual(ids.sort());
    const archived = await Promise.all(
      QUEUES.map((queue) => rows(`SELECT id, status FROM holdfast.${queue}_archive`)),
    );
    expect(
      archived
        .flat()
        .map(({ id }) => id)
        .sort(),
    ).toEqual(ids);
    expect(archived.flat().every(({ status }) => status === 'completed')).toBe(true);
    for (const release of ['old', 'new'])
      for (const type of ['orders', 'fair', 'inbox'])
        expect(
          await count(
            `done JOIN holdfast.${type}_archive a ON a.id = job WHERE release = '${release}'`,
          ),
          `${release} ${type}`,
        ).toBeGreaterThan(0);
    const byKey = await rows(
      `SELECT array_agg(n ORDER BY d.at) AS ns FROM done d JOIN holdfast.orders_archive a ON a.id = d.job GROUP BY d.key`,
    );
    for (const { ns } of byKey) expect(ns).toEqual([...ns].sort((a, b) => a - b));
  } finally {
    await pool.end();
  }
});

test('a worker refuses a queue that the old release made after the migration, until it is migrated', async () => {
  const url = await makeDatabase();
  await using hf = holdfast({ connectionString: url, logger: quietLogger });
  await hf.migrate();
  const pool = new pg.Pool({ connectionString: url });
  try {
    for (const queue of ['orders', 'fair']) await pool.query(oldQueueText(queue));
    const refused = new Child('upgrade-worker', { url, release: 'new', options: QUICK });
    expect(await refused.hears('refused')).toMatchObject({ code: 'SCHEMA_TOO_OLD' });
    await hf.migrate();
    const child = new Child('upgrade-worker', { url, release: 'new', options: QUICK });
    await child.hears('started');
    const { id } = await hf.enqueue(shared, { n: 1 });
    await pool.query('CREATE TABLE done (job uuid, release text, key text, n integer)');
    await hf.wait(id, { queue: 'fair' });
  } finally {
    await pool.end();
  }
});
