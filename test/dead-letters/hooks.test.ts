/**
 * Which job onDeadLetter writes, who says so, and that whatever stands in its way never stops the dead letter.
 */
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { type DeadJob, holdfast, job } from '../../packages/holdfast/src/index.js';
import { recover } from '../../packages/holdfast/src/maintenance/recover.js';
import { claimAs } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { type Charge, tellers } from '../support/told.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const { told, dead, declared, die } = tellers(db, start);
const tell = job<DeadJob>('tell', { priority: 1, maxAttempts: 7 });
const elsewhere = job<DeadJob>('tell_elsewhere', { queue: 'support', version: 3 });
const charge = job<Charge>('charge', { maxAttempts: 1, onDeadLetter: tell });

beforeEach(async () => {
  await db.hf.createQueue('support');
  for (const table of ['support', 'inbox', 'inbox_claims', 'on_dead_letter'])
    await db.rows(`DELETE FROM holdfast.${table}`);
});

describe('which job is written', () => {
  test('the definition says, before its queue; the last worker that starts wins', async () => {
    await db.hf.configureQueue('inbox', { onDeadLetter: elsewhere });
    await declared(charge);
    await db.hf.enqueue(charge, { cents: 1 });
    await db.hf.enqueue(job('plain', { maxAttempts: 1 }), { n: 1 });
    await die('charge');
    await die('plain');
    expect(await told()).toMatchObject([{ type: 'tell', payload: { type: 'charge' } }]);
    expect(await told('support')).toMatchObject([
      { type: 'tell_elsewhere', payload: { type: 'plain', payload: { n: 1 } }, most: 5 },
    ]);
    expect(await db.rows('SELECT version FROM holdfast.support')).toEqual([{ version: 3 }]);

    await declared(job<Charge>('charge', { onDeadLetter: elsewhere }));
    await db.hf.enqueue(charge, { cents: 2 });
    await die('charge');
    expect(await told()).toHaveLength(1);
    expect(await told('support')).toHaveLength(2);

    await declared(job<Charge>('charge'));
    await db.hf.configureQueue('inbox', { onDeadLetter: null });
    await db.hf.enqueue(charge, { cents: 3 });
    expect(await die('charge')).toMatchObject([{ status: 'dead_letter', untold: null }]);
    expect(await told('support')).toHaveLength(2);
    expect(await db.rows('SELECT FROM holdfast.on_dead_letter')).toEqual([]);
  });

  test('a queue is made with one, and the audit says so', async () => {
    await db.hf.createQueue('told_of', { onDeadLetter: tell });
    await db.hf.configureQueue('told_of', { onDeadLetter: elsewhere });
    await db.hf.configureQueue('told_of', { onDeadLetter: elsewhere });
    const { acts } = await db.hf.audit({ queue: 'told_of' });
    expect(acts.map(({ changes }) => changes)).toEqual([
      {
        onDeadLetter: {
          from: { queue: 'inbox', type: 'tell' },
          to: { queue: 'support', type: 'tell_elsewhere' },
        },
      },
      { onDeadLetter: { queue: 'inbox', type: 'tell' } },
    ]);
    await db.hf.enqueue(job('plain', { maxAttempts: 1, queue: 'told_of' }), {});
    await die('plain', 'told_of');
    expect(await told('support')).toMatchObject([{ payload: { queue: 'told_of' } }]);
    await db.rows('DELETE FROM holdfast.told_of');
    await db.hf.dropQueue('told_of');
    expect(await db.rows('SELECT FROM holdfast.on_dead_letter')).toEqual([]);
  });

  test('a job that needs code to be written is refused, and so is a queue that is not there', async () => {
    const unique = job<DeadJob>('u', { unique: { by: (one) => one.id } });
    const rated = job<DeadJob>('r', {
      limit: { rate: { limit: 1, per: '1s', key: (one) => one.id } },
    });
    for (const onDeadLetter of [unique, rated]) {
      const refusal = expect.objectContaining({ code: 'OPTION_INVALID' });
      expect(() => job('x', { onDeadLetter })).toThrow(refusal);
      await expect(db.hf.configureQueue('inbox', { onDeadLetter })).rejects.toEqual(refusal);
    }
    expect(() => job('x', { onDeadLetter: 'tell' as never })).toThrow(/made with job/);
    const nowhere = job<DeadJob>('n', { queue: 'nowhere' });
    const worker = db.hf.worker({ handleSignals: false });
    worker.handle(job('x', { onDeadLetter: nowhere }), () => undefined);
    await expect(worker.run()).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' });
    await expect(db.hf.configureQueue('inbox', { onDeadLetter: nowhere })).rejects.toMatchObject({
      code: 'QUEUE_UNKNOWN',
    });
  });
});

describe('nothing stops the dead letter:', () => {
  const toSupport = job<Charge>('charge', { maxAttempts: 1, onDeadLetter: elsewhere });

  test('a full and paused queue takes the job', async () => {
    await declared(toSupport);
    await db.hf.configureQueue('support', { maxPending: 1 });
    await db.hf.enqueue(elsewhere, {} as never);
    await db.hf.pause('support');
    await db.rows('UPDATE holdfast.queues SET waiting = 5, waiting_at = now()');
    for (const cents of [1, 2]) await db.hf.enqueue(toSupport, { cents });
    await die('charge');
    expect(await told('support')).toHaveLength(2);
    await db.hf.resume('support');
    await db.hf.configureQueue('support', { maxPending: 'off' });
  });

  test('a queue that is gone and a constraint are said in its history', async () => {
    const problems: [string, string, RegExp][] = [
      [
        "ALTER TABLE holdfast.support ADD CONSTRAINT no CHECK (type = 'x')",
        'ALTER TABLE holdfast.support DROP CONSTRAINT no',
        /violates check constraint "no"/,
      ],
      [
        "UPDATE holdfast.on_dead_letter SET to_queue = 'gone'",
        "UPDATE holdfast.on_dead_letter SET to_queue = 'support'",
        /no queue gone/,
      ],
    ];
    await declared(toSupport);
    for (const [harm, mend, reason] of problems) {
      await db.rows(harm);
      const { id } = await db.hf.enqueue(toSupport, { cents: 1 });
      expect(await die('charge')).toMatchObject([
        { id, status: 'dead_letter', untold: expect.stringMatching(reason) },
      ]);
      expect((await dead(id)).history.at(-1)?.told).toMatchObject({
        error: expect.stringMatching(reason),
      });
      expect((await db.hf.explain(id)).text).toMatch(/"tell_elsewhere".* was not written: /);
      await db.rows(mend);
    }
    expect(await told('support')).toEqual([]);
  });

  test.each([
    // The queue that is told. An exhausted job without a hook becomes a dead letter meanwhile.
    ['holdfast.support', 'dead_letter'],
    // Which jobs have a hook: nobody can tell it of an exhausted one, so it waits.
    ['holdfast.on_dead_letter', 'processing'],
  ])('a lock on %s holds up no recovery that does not need it', async (table, plainly) => {
    await declared(toSupport);
    const back = job('back');
    const { id } = await db.hf.enqueue(toSupport, { cents: 1 });
    const hookless = await db.hf.enqueue(job('hookless', { maxAttempts: 1 }), {});
    await db.hf.enqueue(back, {});
    await claimAs(db.engine, 'gone', { types: ['charge', 'hookless', 'back'] });
    const { worker, events } = start(db.hf, (one) => one.handle(back, () => undefined), {
      maintenance: '300ms',
    });
    await until('it has started', () => events.some(({ kind }) => kind === 'started'));
    const client = await db.pool.connect();
    onTestFinished(() => client.release(true));
    await client.query(`BEGIN; LOCK TABLE ${table}`);
    // Suspects, which no claim takes over: they wait for recovery.
    await db.rows(`UPDATE holdfast.inbox SET crashes = 4, isolated = true, started = true,
      lease_expires_at = now() - interval '1 s'`);
    await until('the job that goes back runs', () => worker.stats.completed === 1);
    const is = async (one: { id: string }) => (await db.hf.job(one.id))?.status;
    await until('the other one', async () => (await is(hookless)) === plainly);
    expect(await is({ id })).toBe('processing');
    await client.query('ROLLBACK');
    // The worker's own round may have it just now.
    await until('it is told', async () => {
      await recover(db.engine, INBOX, { limit: 10, recoverer: 'other' });
      return (await told('support')).length === 1;
    });
    await dead(id);
    await until('the other one, too', async () => (await is(hookless)) === 'dead_letter');
  });

  test('in a strict queue the job does not wait behind the dead letter that it tells of', async () => {
    await db.hf.createQueue('strict', { ordering: 'key', deadLetters: 'hold' });
    const teller = job<DeadJob>('tell_strict', { queue: 'strict' });
    const strict = job<Charge>('s', { queue: 'strict', maxAttempts: 1, onDeadLetter: teller });
    const { id } = await db.hf.enqueue(strict, { cents: 1 }, { partitionKey: 'k' });
    const { worker } = start(db.hf, (one) =>
      one
        .handle(strict, () => {
          throw new Error('no');
        })
        .handle(teller, ({ payload }) => void seen.push(payload.id)),
    );
    const seen: string[] = [];
    await until('it is told', () => seen.length === 1);
    expect(seen).toEqual([id]);
    expect(worker.stats.dead_letter).toBe(1);
  });

  test('where keys take turns the group goes along', async () => {
    await db.hf.createQueue('turns', { perGroup: 2 });
    const teller = job<DeadJob>('tell_turns', { queue: 'turns' });
    const sender = job<Charge>('t', { queue: 'turns', maxAttempts: 1, onDeadLetter: teller });
    await db.hf.enqueue(sender, { cents: 1 }, { partitionKey: 'k', group: 'tenant:7' });
    start(db.hf, (one) =>
      one.handle(sender, () => {
        throw new Error('no');
      }),
    );
    await until('it is told', async () => (await told('turns')).length === 1);
    expect(
      await db.rows(
        `SELECT group_key, partition_bucket = holdfast.bucket_of(group_key) AS fits FROM holdfast.turns WHERE type = 'tell_turns'`,
      ),
    ).toEqual([{ group_key: 'tenant:7', fits: true }]);
  });
});

test('a sleeping worker of another queue is woken by the job', async () => {
  const handled: string[] = [];
  const teller = start(
    db.hf,
    (one) => one.handle(elsewhere, ({ payload }) => void handled.push(payload.id)),
    { poll: '60s' },
  );
  await until('it waits for hints', () => teller.events.some(({ kind }) => kind === 'started'));
  start(db.hf, (one) =>
    one.handle(job<Charge>('charge', { maxAttempts: 1, onDeadLetter: elsewhere }), () => {
      throw new Error('no');
    }),
  );
  const { id } = await db.hf.enqueue(job('charge', { maxAttempts: 1 }), { cents: 1 });
  await until('it is told', () => handled.includes(id), { timeoutMs: 15_000 });
});

test('in a schema of another name, into a queue of its own', async () => {
  await using hf = holdfast({ connectionString: db.url, schema: 'shop_jobs', logger: quietLogger });
  await hf.migrate();
  await hf.createQueue('support');
  start(hf, (one) =>
    one.handle(job<Charge>('charge', { maxAttempts: 1, onDeadLetter: elsewhere }), () => {
      throw new Error('no');
    }),
  );
  const { id } = await hf.enqueue(job('charge', { maxAttempts: 1 }), { cents: 1 });
  const text = `SELECT payload ->> 'id' AS id FROM shop_jobs.support`;
  await until('it is told', async () => (await db.rows(text)).length === 1);
  expect(await db.rows(text)).toEqual([{ id }]);
});
