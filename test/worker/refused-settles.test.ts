/**
 * Settles that the database cancels or refuses: by a limit of the role's, by a trigger of the user's, or because
 * its encoding has no place for a character. The lease is not lost: the attempt counts, and the reason is kept.
 */
import pg from 'pg';
import { afterEach, beforeAll, beforeEach, expect, inject, onTestFinished, test } from 'vitest';
import {
  Cancel,
  DeadLetter,
  type Holdfast,
  holdfast,
  job,
} from '../../packages/holdfast/src/index.js';
import { dropDatabase } from '../../packages/testing/src/index.js';
import { testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const cursed = job<{ n: number }>('cursed', { retry: () => 0, maxAttempts: 3 });
const plain = job<{ n: number }>('plain');

/** Raises where it is put as a trigger, for the jobs called cursed. */
const REFUSE = `
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.type = 'cursed' THEN RAISE EXCEPTION 'the auditors say no'; END IF;
  RETURN NEW;
END $$`;
const OFF = `
DROP TRIGGER IF EXISTS refuse ON holdfast.inbox_archive;
DROP TRIGGER IF EXISTS refuse ON holdfast.inbox;
DROP TRIGGER IF EXISTS slow ON holdfast.inbox_archive;
DROP TRIGGER IF EXISTS refuse ON holdfast.ledger_archive`;

beforeAll(async () => {
  await db.hf.createQueue('ledger', { ordering: 'key' });
  await db.rows(REFUSE);
});
beforeEach(() => db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_archive'));
afterEach(() => db.rows(OFF));

const onArchive = (queue = 'inbox') =>
  db.rows(`CREATE TRIGGER refuse BEFORE INSERT ON holdfast.${queue}_archive
    FOR EACH ROW EXECUTE FUNCTION refuse()`);

const find = async (hf: Holdfast, id: string, status: string) =>
  until(`job ${id} is ${status}`, async () => {
    const row = await hf.job(id);
    return row?.status === status ? row : null;
  });

test('a completion that a trigger refuses is a failed attempt, with the reason of the trigger', async () => {
  await onArchive();
  const [bad, ...good] = await db.hf.enqueueMany([
    cursed.item({ n: 0 }),
    ...Array.from({ length: 50 }, (_, n) => plain.item({ n })),
  ]);
  const runs: number[] = [];
  const { worker, events } = start(db.hf, (w) =>
    w.handle(cursed, ({ attempt }) => void runs.push(attempt)).handle(plain, () => {}),
  );
  const row = await find(db.hf, bad!.id, 'dead_letter');
  expect(row).toMatchObject({ attempts: 3 });
  expect(row.lastError).toMatch(
    /^Error: the database refused to write the outcome "completed": the auditors say no\n/,
  );
  expect(runs).toEqual([1, 2, 3]);
  await until('the others are completed', () => worker.stats.completed === good.length);
  expect(worker.stats).toMatchObject({ lost: 0, failed: 2, dead_letter: 1 });
  expect(events.filter(({ kind }) => kind === 'lost')).toEqual([]);
});

test('a cancellation that a trigger refuses is a failed attempt too', async () => {
  await onArchive();
  const { id } = await db.hf.enqueue(cursed, { n: 0 });
  start(db.hf, (w) =>
    w.handle(cursed, () => {
      throw new Cancel('not wanted any more');
    }),
  );
  const row = await find(db.hf, id, 'dead_letter');
  expect(row.lastError).toMatch(/refused to write the outcome "cancelled": the auditors say no/);
});

test('a failure that is refused is kept and tried again: the job does not run twice, and nothing ends', async () => {
  await db.rows(`CREATE TRIGGER refuse BEFORE UPDATE ON holdfast.inbox FOR EACH ROW
    WHEN (OLD.status = 'processing' AND NEW.status <> 'processing') EXECUTE FUNCTION refuse()`);
  const once = job<{ n: number }>('cursed', { maxAttempts: 1 });
  const { id } = await db.hf.enqueue(once, { n: 0 });
  let runs = 0;
  const { worker, events } = start(db.hf, (w) =>
    w.handle(once, () => {
      runs += 1;
      throw new Error('no such order');
    }),
  );
  const refused = () => events.filter((event) => event.kind === 'error').length;
  await until('it was refused more than once', () => refused() > 2);
  expect(worker.stats).toMatchObject({ lost: 0, failed: 0, dead_letter: 0 });
  await db.rows(OFF);
  const row = await find(db.hf, id, 'dead_letter');
  expect(row.lastError).toMatch(/^Error: no such order\n/);
  expect(runs).toBe(1);
});

test('a failure whose commit is unknown, and that is refused, is kept and does not end the process', async () => {
  await db.rows(`CREATE TRIGGER refuse BEFORE UPDATE ON holdfast.inbox FOR EACH ROW
    WHEN (OLD.status = 'processing' AND NEW.status <> 'processing') EXECUTE FUNCTION refuse()`);
  const { id } = await db.hf.enqueue(cursed, { n: 0 });
  const { events } = start(db.hf, (w) =>
    w.handle(cursed, async (ctx) => {
      const client = await db.pool.connect();
      try {
        await client.query('BEGIN');
        await ctx.complete(client);
        throw new Error('not committed');
      } finally {
        await client.query('ROLLBACK');
        client.release();
      }
    }),
  );
  await until(
    'it was refused more than once',
    () => events.filter((event) => event.kind === 'error').length > 2,
  );
  await db.rows(OFF);
  const row = await find(db.hf, id, 'dead_letter');
  expect(row).toMatchObject({ attempts: 3 });
  expect(row.lastError).toMatch(/^Error: not committed\n/);
});

test('behind a completion that was refused no later job of its key is completed', async () => {
  await onArchive('ledger');
  const first = job<{ n: number }>('cursed', { queue: 'ledger', retry: () => 60_000 });
  const second = job<{ n: number }>('plain', { queue: 'ledger' });
  const failed = gate();
  const ended = gate();
  let cursedId = '';
  const { worker, events } = start(
    db.hf,
    (w) =>
      w
        .handle(first, () => {})
        .handle(second, async ({ payload }) => {
          if (payload.n === 0) return;
          // It ends when the outcome of the first is known.
          await failed.opened;
          ended.open();
        }),
    {
      onEvent(event) {
        events.push(event);
        if (event.kind === 'failed' && event.id === cursedId) failed.open();
      },
    },
  );
  // After some quick jobs a worker takes the jobs of a key in a row.
  await db.hf.enqueueMany(Array.from({ length: 5 }, () => second.item({ n: 0 })));
  await until('they are done', () => worker.stats.completed === 5);
  const key = 'order:9182';
  const pair = [
    first.item({ n: 1 }, { partitionKey: key }),
    second.item({ n: 2 }, { partitionKey: key }),
  ];
  await db.hf.pause('ledger');
  const [one, two] = await db.hf.enqueueMany(pair);
  cursedId = one!.id;
  await db.hf.resume('ledger');
  await ended.opened;
  const of = (id: string) => events.filter((event) => 'id' in event && event.id === id);
  await until('the second has left', () => of(two!.id).some(({ kind }) => kind !== 'started-job'));
  await until(
    'it waits again',
    async () => (await db.hf.job(two!.id, { queue: 'ledger' }))?.status === 'pending',
  );
  expect(of(two!.id).map(({ kind }) => kind)).not.toContain('completed');
  expect(await db.hf.job(one!.id, { queue: 'ledger' })).toMatchObject({
    status: 'pending',
    attempts: 1,
  });
});

test('a limit that the database sets for statements cuts no batch short', async () => {
  const total = 499;
  const name = new URL(db.url).pathname.slice(1);
  await db.rows(`CREATE OR REPLACE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(0.002); RETURN NEW; END $$`);
  await db.rows(`CREATE TRIGGER slow BEFORE INSERT ON holdfast.inbox_archive
    FOR EACH ROW EXECUTE FUNCTION slowly()`);
  await db.hf.enqueueMany(Array.from({ length: total }, (_, n) => plain.item({ n })));
  await db.rows(`ALTER DATABASE ${name} SET statement_timeout = '200ms'`);
  onTestFinished(
    async () => void (await db.rows(`ALTER DATABASE ${name} RESET statement_timeout`)),
  );
  let runs = 0;
  const { worker, events } = start(db.hf, (w) => w.handle(plain, () => void runs++));
  await until('all are completed', () => worker.stats.completed === total);
  expect(runs).toBe(total);
  expect(events.filter(({ kind }) => kind === 'error')).toEqual([]);
});

test('a batch that is cancelled is halved until it goes through', async () => {
  await db.rows(`CREATE OR REPLACE FUNCTION too_many() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN
      IF (SELECT count(*) FROM rows) > 10 THEN
        RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014';
      END IF;
      RETURN NULL;
    END $$`);
  await db.rows(`CREATE TRIGGER slow AFTER INSERT ON holdfast.inbox_archive
    REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION too_many()`);
  const total = 200;
  const runs = new Set<number>();
  await db.hf.enqueueMany(Array.from({ length: total }, (_, n) => plain.item({ n })));
  const { worker, events } = start(db.hf, (w) =>
    w.handle(plain, ({ payload, attempt }) => void (attempt === 1 && runs.add(payload.n))),
  );
  await until('all are completed', () => worker.stats.completed === total);
  expect(events.some((event) => event.kind === 'error')).toBe(true);
  expect(runs.size).toBe(total);
  expect(worker.stats).toMatchObject({ completed: total, lost: 0, failed: 0 });
});

/** A database whose encoding has no €. */
async function latin1(): Promise<Holdfast> {
  const name = `holdfast_latin1_${process.pid}`;
  const server = inject('serverUrl');
  const client = new pg.Client({ connectionString: server });
  await client.connect();
  await client.query(
    `CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'`,
  );
  await client.end();
  onTestFinished(() => dropDatabase(server, name));
  const url = new URL(server);
  url.pathname = `/${name}`;
  const hf = holdfast({ connectionString: url.toString(), logger: quietLogger });
  onTestFinished(() => hf.close());
  await hf.migrate();
  return hf;
}

test('an error that the encoding of the database cannot hold is kept in words that it can', async () => {
  const hf = await latin1();
  const [fails, givesUp, cancels, once] = ['fails', 'gives_up', 'cancels', 'once'].map((type) =>
    job<object>(type, { maxAttempts: 2, retry: () => 0 }),
  ) as [typeof plain, typeof plain, typeof plain, typeof plain];
  const ids = (
    await hf.enqueueMany([fails, givesUp, cancels, once].map((one) => one.item({ n: 0 })))
  ).map(({ id }) => id) as [string, string, string, string];
  let effects = 0;
  const { worker, stop } = start(hf, (w) =>
    w
      .handle(fails, () => {
        throw new Error('it costs 5 €');
      })
      .handle(givesUp, () => {
        throw new DeadLetter('nobody has 5 €');
      })
      .handle(cancels, () => {
        throw new Cancel('5 € are too much');
      })
      .handle(once, async (ctx) => {
        expect(await ctx.once('pay', () => `${++effects} €`)).toBeUndefined();
        if (ctx.attempt === 1) throw new Error('again');
      }),
  );
  expect(await find(hf, ids[0], 'dead_letter')).toMatchObject({ attempts: 2 });
  expect((await hf.job(ids[0]))?.lastError).toMatch(/^Error: it costs 5 \\u\{20ac\}\n/);
  expect(await find(hf, ids[1], 'dead_letter')).toMatchObject({ attempts: 1 });
  expect((await hf.job(ids[1]))?.lastError).toMatch(/^DeadLetter: nobody has 5 \\u\{20ac\}/);
  expect((await find(hf, ids[2], 'cancelled')).lastError).toMatch(/5 \\u\{20ac\} are too much/);
  await find(hf, ids[3], 'completed');
  expect(effects).toBe(1);
  expect(worker.stats.lost).toBe(0);
  await stop();
});
