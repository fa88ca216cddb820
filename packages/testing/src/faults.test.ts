/** Handlers that survive every fault, and handlers that do not, on PGlite and on a server. */
import { inspect } from 'node:util';
import pg from 'pg';
import { beforeEach, describe, expect, test } from 'vitest';
import { KITS, kitOn } from '../../../test/support/kits.js';
import { long } from '../../../test/support/long.js';
import { job } from '../../holdfast/src/index.js';
import type { HandlerContext } from '../../holdfast/src/worker/run/handler-context.js';
import { clearJobs, survivesFaults, testJob } from './index.js';

interface Order {
  readonly orderId: number;
}

const receipt = job<Order>('send_receipt', { retry: { base: '1ms' } });
const child = job<Order>('child');

/** A mail service that knows idempotency keys. */
class Mailer {
  sent = 0;
  readonly #keys = new Set<string>();

  async send(_orderId: number, key?: string): Promise<string> {
    if (key === undefined || !this.#keys.has(key)) this.sent++;
    if (key !== undefined) this.#keys.add(key);
    return `message ${this.sent}`;
  }
}

const TABLES = `
CREATE TABLE receipts (id bigint GENERATED ALWAYS AS IDENTITY, order_id bigint, job_id uuid);
CREATE TABLE unique_receipts (order_id bigint PRIMARY KEY);
CREATE TABLE marks (order_id bigint PRIMARY KEY)`;

type Handler = (ctx: HandlerContext<Order>) => unknown;

describe.each(KITS)('on %s', (name, open) => {
  /** What is counted and told of it is the same on both: the dearer one is asked in full only. */
  const told = (title: string, body: () => Promise<void>) => {
    if (long(name === 'Postgres', true)) test(title, body);
  };

  const kit = kitOn(open, TABLES);
  const count = async (table: string) =>
    Number((await kit.pool.query(`SELECT count(*)::int AS n FROM ${table}`)).rows[0].n);
  let mailer = new Mailer();
  beforeEach(async () => {
    mailer = new Mailer();
    await clearJobs(kit.hf);
    await kit.pool.query('DELETE FROM receipts; DELETE FROM unique_receipts; DELETE FROM marks');
  });
  const mails = () => mailer.sent;
  const perRun = (run: number): Order => ({ orderId: run });

  async function report(handler: Handler, effect: () => number | Promise<number>): Promise<string> {
    const { hf } = kit;
    const failed = survivesFaults(receipt, handler, perRun, { hf, effect });
    return failed.then(
      () => 'survived',
      (error: Error) => error.message,
    );
  }

  test('a broken connection says who broke it, in case that nobody catches it', async () => {
    const handler: Handler = ({ transaction }) => transaction((tx) => tx.query('SELECT 1'));
    const options = { hf: kit.hf, fault: 'commit_lost' } as const;
    const { error } = await testJob(receipt, handler, { orderId: 1 }, options);
    expect(inspect(error)).toMatch(/The test kit broke the connection at COMMIT/);
  });

  describe('survive', () => {
    told('ctx.once, whose one gap is reported', async () => {
      const handler: Handler = async ({ payload, once }) => {
        await once('mail', () => mailer.send(payload.orderId));
      };
      const options = { hf: kit.hf, effect: mails };
      const { tried, onceGap } = await survivesFaults(receipt, handler, perRun, options);
      expect(onceGap).toBe('open');
      expect(tried).toHaveLength(11);
    });

    told('a fault that had nothing to strike does not count as tried', async () => {
      let runs = 0;
      const handler: Handler = async ({ payload, once }) => {
        await once('mail', () => mailer.send(payload.orderId, String(payload.orderId)));
        // A step of the first two runs only: a warm cache.
        if (runs++ < 2) await kit.pool.query('SELECT 1');
      };
      const options = { hf: kit.hf, effect: mails };
      const { tried, missed } = await survivesFaults(receipt, handler, perRun, options);
      expect(missed.length).toBeGreaterThan(0);
      expect(tried.filter((title) => missed.includes(title))).toEqual([]);
    });

    test('ctx.once with a key for the other system, also where no gap is allowed', async () => {
      const handler: Handler = async (ctx) => {
        await ctx.once('mail', () => mailer.send(ctx.payload.orderId, `${ctx.id}:mail`));
        await ctx.transaction((tx) =>
          tx.query('INSERT INTO receipts (job_id) VALUES ($1)', [ctx.id]),
        );
      };
      const options = { hf: kit.hf, effect: mails, onceGap: 'fail' } as const;
      const { onceGap, tried } = await survivesFaults(receipt, handler, perRun, options);
      expect(onceGap).toBe('closed');
      // Each of them wrote one row, and the two undisturbed runs.
      expect(await count('receipts')).toBe(tried.length + 2);
    });

    test('ctx.transaction, ctx.complete, and children', async () => {
      const transacted: Handler = ({ payload, transaction, enqueue }) =>
        transaction(async (tx) => {
          await tx.query('INSERT INTO receipts (order_id) VALUES ($1)', [payload.orderId]);
          await enqueue(child, payload);
        });
      expect(await report(transacted, () => count('receipts'))).toBe('survived');

      const completed: Handler = async ({ payload, complete }) => {
        const client = await kit.pool.connect();
        try {
          await client.query('BEGIN');
          await client.query('INSERT INTO receipts (order_id) VALUES ($1)', [payload.orderId]);
          await complete(client);
          await client.query('COMMIT');
        } catch (error) {
          await client.query('ROLLBACK').catch(() => undefined);
          throw error;
        } finally {
          client.release();
        }
      };
      expect(await report(completed, () => count('receipts'))).toBe('survived');

      await clearJobs(kit.hf);
      const parent: Handler = ({ payload, enqueue }) => enqueue(child, payload);
      const children = () => count(`holdfast.inbox WHERE type = 'child'`);
      expect(await report(parent, children)).toBe('survived');
    });

    test('several queries and effects at once', async () => {
      const handler: Handler = async ({ payload, once }) => {
        await Promise.all([1, 2].map(() => kit.pool.query('SELECT 1')));
        const send = () => mailer.send(payload.orderId, `mail ${payload.orderId}`);
        await Promise.all([once('mail', send), once('log', () => undefined)]);
      };
      const options = { hf: kit.hf, effect: mails, onceGap: 'fail' } as const;
      const { onceGap } = await survivesFaults(receipt, handler, perRun, options);
      expect(onceGap).toBe('closed');
    });

    told('a unique key in a transaction of their own', async () => {
      const handler: Handler = async ({ payload }) => {
        const client = await kit.pool.connect();
        try {
          await client.query('BEGIN');
          const insert = 'INSERT INTO unique_receipts VALUES ($1) ON CONFLICT DO NOTHING';
          await client.query(insert, [payload.orderId]);
          await client.query('COMMIT');
        } catch (error) {
          await client.query('ROLLBACK').catch(() => undefined);
          throw error;
        } finally {
          client.release();
        }
      };
      expect(await report(handler, () => count('unique_receipts'))).toBe('survived');
    });

    told('an idempotency key of the other system', async () => {
      const handler: Handler = ({ payload, id }) => mailer.send(payload.orderId, id);
      expect(await report(handler, mails)).toBe('survived');
    });
  });

  describe('are caught', () => {
    test('a naive handler: mail, then mark', async () => {
      const handler: Handler = async ({ payload }) => {
        await mailer.send(payload.orderId);
        const mark = 'INSERT INTO marks VALUES ($1) ON CONFLICT DO NOTHING';
        await kit.pool.query(mark, [payload.orderId]);
      };
      const message = await report(handler, mails);
      expect(message).toMatch(
        /^The handler of "send_receipt" does not survive a fault: its effect happened 2 × instead of 1 ×\./,
      );
      expect(message).toMatch(/Fault: the worker crashes before the query "INSERT INTO marks/);
      expect(message).toMatch(/1\. Worker 1 claimed the job and started the handler\.\n/);
      expect(message).toMatch(
        /2\. Worker 1 crashed before the query .*\[the effect has happened 1 × by now\]\n/,
      );
      expect(message).toMatch(
        /4\. Worker 2 claimed the job and ran the handler: completed\. \[the effect has happened 2 × by now\]/,
      );
      expect(message).toMatch(/ctx\.once\("name"/);
    });

    told('mark, then mail: the effect is lost', async () => {
      const handler: Handler = async ({ payload }) => {
        const text = 'INSERT INTO marks VALUES ($1) ON CONFLICT DO NOTHING RETURNING order_id';
        const { rows } = await kit.pool.query(text, [payload.orderId]);
        if (rows.length > 0) await mailer.send(payload.orderId);
      };
      const message = await report(handler, mails);
      expect(message).toMatch(/0 × instead of 1 ×; it was lost/);
      expect(message).toMatch(/marks the work as done before it is done/);
    });

    test('look, then write: a worker that lost its lease between the two, and two workers at once', async () => {
      const handler: Handler = async ({ payload }) => {
        const values = [payload.orderId];
        const found = await kit.pool.query('SELECT FROM receipts WHERE order_id = $1', values);
        if (found.rowCount === 0)
          await kit.pool.query('INSERT INTO receipts (order_id) VALUES ($1)', values);
      };
      const message = await report(handler, () => count('receipts'));
      expect(message).toMatch(/Fault: the lease is lost before the query "INSERT INTO receipts/);
      expect(message).toMatch(
        /the job is delivered to two workers at once: its effect happened 2 ×/,
      );
      expect(message).toMatch(/It also failed at \(2 of 11 faults\)/);
    });

    told('a second run that throws on what the first one left', async () => {
      const handler: Handler = ({ payload }) =>
        kit.pool.query('INSERT INTO unique_receipts VALUES ($1)', [payload.orderId]);
      const message = await report(handler, () => count('unique_receipts'));
      expect(message).toMatch(/its job ended as "dead_letter" instead of "completed"/);
      expect(message).toMatch(/ON CONFLICT DO NOTHING/);
    });

    told('an effect behind many steps', async () => {
      const handler: Handler = async ({ payload, once }) => {
        for (let n = 0; n < 25; n++) await kit.pool.query('SELECT 1');
        await once('mail', () => mailer.send(payload.orderId));
      };
      const options = { hf: kit.hf, effect: mails, onceGap: 'fail' } as const;
      const failed = survivesFaults(receipt, handler, perRun, options);
      await expect(failed).rejects.toThrow(/before .*marker|marker/);
    });

    told('a gap after which the job never completes', async () => {
      const charged = new Set<number>();
      let calls = 0;
      const handler: Handler = async ({ payload, once }) => {
        await once('charge', () => {
          calls++;
          if (charged.has(payload.orderId)) throw new Error('already charged');
          charged.add(payload.orderId);
        });
      };
      expect(await report(handler, () => calls)).toMatch(/already charged/);
    });

    told('the gap of ctx.once, where it must be closed', async () => {
      const handler: Handler = ({ payload, once }) =>
        once('mail', () => mailer.send(payload.orderId));
      const options = { hf: kit.hf, effect: mails, onceGap: 'fail' } as const;
      const failing = survivesFaults(receipt, handler, perRun, options);
      await expect(failing).rejects.toThrow(
        /after ctx\.once\("mail"\) had run its effect and before its marker/,
      );
      await expect(failing).rejects.toThrow(/idempotency key made of ctx\.id/);
    });
  });

  test('the marker of an effect that was lost is not found, and the attempt is retried', async () => {
    const handler: Handler = ({ payload, once }) =>
      once('mail', () => mailer.send(payload.orderId));
    const options = { hf: kit.hf, fault: 'marker_lost' } as const;
    const result = await testJob(receipt, handler, { orderId: 1 }, options);
    expect(result).toMatchObject({ outcome: 'retry', effects: {} });
    expect(mailer.sent).toBe(1);
  });

  test('wrong calls say what is wrong', async () => {
    const { hf } = kit;
    const quiet: Handler = () => undefined;
    const failing: Handler = () => {
      throw new Error('the mail server is down');
    };
    const unique: Handler = ({ payload }) =>
      kit.pool.query('INSERT INTO unique_receipts VALUES ($1) ON CONFLICT DO NOTHING', [
        payload.orderId,
      ]);
    const one = { orderId: 1 };
    const run = (handler: Handler, effect: unknown) =>
      survivesFaults(receipt, handler, one, { hf, effect: effect as () => number });
    await expect(run(quiet, undefined)).rejects.toThrow(/needs \{ effect \}/);
    await expect(run(quiet, mails)).rejects.toThrow(/there is nothing to watch over/);
    await expect(run(quiet, () => '1')).rejects.toThrow(
      /effect returned "1" and must return a number/,
    );
    await expect(run(failing, mails)).rejects.toThrow(
      /ended as "retry": Error: the mail server is down/,
    );
    const once = run(unique, () => count('unique_receipts'));
    await expect(once).rejects.toThrow(/pass the payload as a function/);
  });

  test('a client takes callbacks and query objects in a handler too, and a step is struck in each', async () => {
    const insert = 'INSERT INTO receipts (order_id) VALUES ($1)';
    const handler: Handler = async ({ payload }) => {
      const client = await kit.pool.connect();
      try {
        const sent = client.query(new pg.Query('SELECT 1 AS n'));
        expect(sent).toBeInstanceOf(pg.Query);
        await new Promise<void>((resolve, reject) =>
          client.query(insert, [payload.orderId], (error) => (error ? reject(error) : resolve())),
        );
      } finally {
        client.release();
      }
    };
    const said = await report(handler, () => count('receipts'));
    expect(said).toMatch(/effect happened 2 × instead of 1 ×/);
  });

  test('the pool is whole afterwards', async () => {
    const { pool } = kit;
    expect(pool.waitingCount ?? 0).toBe(0);
    const clients = await Promise.all(Array.from({ length: 5 }, () => pool.connect()));
    const states = await Promise.all(
      clients.map(async (client) => (await client.query('SELECT 1 AS n')).rows),
    );
    for (const client of clients) client.release();
    expect(states).toEqual(Array.from({ length: 5 }, () => [{ n: 1 }]));
  });
});
