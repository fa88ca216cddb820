/**
 * onDeadLetter: whichever way a job dies, a job that tells of it is written in the same statement, once for each death and
 * never in a chain.
 */
import { beforeEach, describe, expect, test } from 'vitest';
import { type DeadJob, DeadLetter, job, type Worker } from '../../packages/holdfast/src/index.js';
import { recover } from '../../packages/holdfast/src/maintenance/recover.js';
import { engineExecutor } from '../../packages/holdfast/src/postgres/queryable.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { fail, failedBefore } from '../../packages/holdfast/src/settle/fail.js';
import { claimAs } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { type Charge, tellers } from '../support/told.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const { told, dead, declared, die } = tellers(db, start);
const tell = job<DeadJob>('tell', { priority: 1, maxAttempts: 7 });
const once = { maxAttempts: 1, onDeadLetter: tell } as const;
const charge = job<Charge>('charge', once);

beforeEach(async () => {
  for (const table of ['inbox', 'inbox_claims', 'on_dead_letter'])
    await db.rows(`DELETE FROM holdfast.${table}`);
});

describe('a job is written for one that', () => {
  const ways: [string, (worker: Worker) => Worker, RegExp, string][] = [
    [
      'fails in its last attempt',
      (worker) =>
        worker.handle(charge, () => {
          throw new TypeError('no card');
        }),
      /^TypeError: no card\n/,
      'failed',
    ],
    [
      'gives up',
      (worker) =>
        worker.handle(charge, () => {
          throw new DeadLetter('no such customer');
        }),
      /no such customer/,
      'dead_letter',
    ],
    [
      'is out of time in its last attempt',
      (worker) =>
        worker.handle(job<Charge>('charge', { ...once, timeout: 20 }), () => new Promise(() => {})),
      /time limit of 20 ms/,
      'failed',
    ],
    [
      'does not fit its schema',
      (worker) => {
        const validate = () => ({ issues: [{ message: 'no' }] });
        const schema = { '~standard': { version: 1, vendor: 'test', validate } } as const;
        return worker.handle(job<Charge>('charge', { ...once, schema } as never), () => undefined);
      },
      /does not fit its schema/,
      'dead_letter',
    ],
    [
      'has a version that nobody upgrades',
      (worker) =>
        worker.handle(
          job<Charge>('charge', { ...once, version: 3, upgrade: { 2: (old) => old } }),
          () => undefined,
        ),
      /has version 1; this worker knows 2 to 3/,
      'dead_letter',
    ],
    [
      'fails in a batch by its own outcome',
      (worker) => worker.handleMany(charge, { max: 5 }, ([one]) => one?.fail(new Error('part'))),
      /part/,
      'failed',
    ],
    [
      'is given up in a batch',
      (worker) =>
        worker.handleMany(charge, { max: 5 }, ([one]) => one?.fail(new DeadLetter('part'))),
      /part/,
      'dead_letter',
    ],
  ];
  test.each(ways)('%s', async (_, handlers, error, outcome) => {
    const options = { partitionKey: 'order:1', headers: { tenant: 'a' } };
    const { id } = await db.hf.enqueue(
      job<Charge>('charge', { maxAttempts: 1 }),
      { cents: 5 },
      options,
    );
    const { stop } = start(db.hf, handlers);
    const letter = await dead(id);
    await stop();
    const [one, ...others] = await told();
    expect(others).toEqual([]);
    expect(one).toEqual({
      ...{ id: expect.any(String), type: 'tell', key: 'order:1', priority: 1, most: 7 },
      headers: { tenant: 'a', holdfast_dead_letter: id },
      payload: {
        ...{ id, queue: 'inbox', type: 'charge', version: 1, key: 'order:1' },
        ...{ payload: { cents: 5 }, attempts: 1, outcome },
        error: expect.stringMatching(error),
        diedAt: expect.any(String),
      },
    });
    const last = letter.history.at(-1);
    expect(last?.told).toEqual({ queue: 'inbox', type: 'tell', id: one?.id });
    const { text } = await db.hf.explain(id);
    expect(text).toContain(` Job ${one?.id} ("tell" in queue "inbox") tells of it.`);
    expect(new Date(one?.payload.diedAt as string)).toEqual(last?.at);
  });

  test('took its workers along, also when nobody who recovers it knows its definition', async () => {
    await declared(charge);
    const { id } = await db.hf.enqueue(charge, { cents: 7 });
    await claimAs(db.engine, 'gone', { types: ['charge'] });
    await db.rows(
      `UPDATE holdfast.inbox SET crashes = 4, isolated = true, started = true, lease_expires_at = now() - interval '1 s'`,
    );
    const [row] = await recover(db.engine, INBOX, { limit: 10, recoverer: 'other' });
    expect(row).toMatchObject({ id, status: 'dead_letter', untold: null });
    const [one] = await told();
    expect(one?.payload).toMatchObject({
      ...{ id, outcome: 'vanished', payload: { cents: 7 }, attempts: 1 },
      error: 'The worker gone vanished while it held this job.',
    });
    expect(await recover(db.engine, INBOX, { limit: 10, recoverer: 'other' })).toEqual([]);
    expect(await told()).toHaveLength(1);
  });
});

describe('no other', () => {
  test('attempt, release or death is told of: one that may be tried again, one without a hook', async () => {
    await declared(charge);
    await db.hf.enqueue(charge, { cents: 1 }, { maxAttempts: 2 });
    await db.hf.enqueue(job('plain', { maxAttempts: 1 }), {});
    expect(await die('charge')).toMatchObject([{ status: 'pending', untold: null }]);
    expect(await die('plain')).toMatchObject([{ status: 'dead_letter', untold: null }]);
    expect(await told()).toEqual([]);
    expect(await die('charge')).toMatchObject([{ status: 'dead_letter' }]);
    expect(await told()).toHaveLength(1);
  });

  test('is written when the answer was lost and the failure is settled again', async () => {
    await declared(charge);
    await db.hf.enqueue(charge, { cents: 1 });
    const [held] = await claimAs(db.engine, 'w', { types: ['charge'] });
    const { id, leaseGeneration: generation } = held as { id: string; leaseGeneration: number };
    const again = { id, generation, delayMs: 0, error: 'Error: no', summary: 'Error: no' };
    for (const moved of [1, 0, 0])
      expect(await fail(db.engine, INBOX, 'w', [again])).toHaveLength(moved);
    expect(await deadLetter(db.engine, INBOX, 'w', [again])).toEqual([]);
    expect(await failedBefore(db.engine, INBOX, 'w', [again])).toEqual([
      { id, status: 'dead_letter' },
    ]);
    expect(await told()).toHaveLength(1);
  });

  test('is there when the statement is rolled back, and neither is the dead letter', async () => {
    await declared(charge);
    await db.hf.enqueue(charge, { cents: 1 });
    const [held] = await claimAs(db.engine, 'w', { types: ['charge'] });
    const { id, leaseGeneration: generation } = held as { id: string; leaseGeneration: number };
    const client = await db.pool.connect();
    await client.query('BEGIN');
    const one = { id, generation, error: 'Error: no', summary: 'Error: no' };
    const letters = await deadLetter(engineExecutor(client, { prepare: false }), INBOX, 'w', [one]);
    expect(letters).toMatchObject([{ status: 'dead_letter' }]);
    expect(await told()).toEqual([]);
    await client.query('ROLLBACK');
    client.release();
    expect(await told()).toEqual([]);
    expect(await db.hf.job(id)).toMatchObject({ status: 'processing' });
  });

  test('is written for a job that tells, even if two types name each other', async () => {
    const ping = job<DeadJob>('ping', { maxAttempts: 1 });
    const pong = job<DeadJob>('pong', { maxAttempts: 1, onDeadLetter: ping });
    await declared(job<DeadJob>('ping', { maxAttempts: 1, onDeadLetter: pong }), pong);
    await db.hf.configureQueue('inbox', { onDeadLetter: tell });
    await db.hf.enqueue(job('ping', { maxAttempts: 1 }), {});
    await die('ping');
    expect(await told()).toMatchObject([{ type: 'pong' }]);
    expect(await die('pong')).toMatchObject([{ status: 'dead_letter', untold: null }]);
    expect(await told()).toHaveLength(1);
    // Nor after a human has tried it again.
    const [one] = await told();
    await db.hf.retry([one?.id as string]);
    await die('pong');
    expect(await told()).toHaveLength(1);
    await db.hf.configureQueue('inbox', { onDeadLetter: null });
  });

  test('but the second death of a job that was retried is another death', async () => {
    await declared(charge);
    const { id } = await db.hf.enqueue(charge, { cents: 1 });
    await die('charge');
    await db.hf.retry([id]);
    await die('charge');
    const both = await told();
    expect(both.map(({ payload }) => payload.id)).toEqual([id, id]);
    // What was discarded and is brought back as a dead letter has died before.
    await db.hf.discard([id]);
    await db.hf.archive.replay([id], { asDeadLetters: true });
    expect(await db.hf.job(id)).toMatchObject({ status: 'dead_letter' });
    expect(await told()).toHaveLength(2);
  });
});
