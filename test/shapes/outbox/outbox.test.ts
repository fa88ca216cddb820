/** The outbox and its relay with the HTTP sink, against a real server: order, faults, dedupe, refusals, drains. */
import { beforeAll, describe, expect, test } from 'vitest';
import { DeadLetter } from '../../../packages/holdfast/src/index.js';
import {
  type Message,
  type Outbox,
  type OutboxOptions,
  outbox,
  type RelayOptions,
  relay,
  type Sink,
  Unavailable,
} from '../../../packages/holdfast/src/shapes/outbox/index.js';
import { httpSink } from '../../../packages/holdfast/src/shapes/outbox/sinks/http.js';
import { eventLog } from '../../../packages/holdfast/src/shapes/projections/index.js';
import { testDatabase } from '../../support/database.js';
import { long } from '../../support/long.js';
import { until } from '../../support/until.js';
import { testWorkers } from '../../support/workers.js';
import { type Receiver, startReceiver } from './receiver.js';

const db = testDatabase();
const start = testWorkers();

interface Events {
  'order.placed': { n: number };
  'order.paid': { n: number; total?: number };
}

/** Pauses as a test can wait for them. */
const QUICK: RelayOptions = { maxPause: '100ms' };

/** The queue is made once; the workers of the tests before are gone, and so is what they left in it. */
beforeAll(() => outbox(db.hf).create());
async function newOutbox(options: OutboxOptions = {}): Promise<Outbox<Events>> {
  await db.rows('TRUNCATE holdfast.outbox, holdfast.outbox_archive, holdfast.outbox_claims');
  const events = outbox<Events>(db.hf, options);
  await events.create();
  return events;
}

const ends = (events: Outbox<Events>, count: number) =>
  until(`${count} events of ${events.queue} are published`, async () => {
    const [row] = await db.rows<{ n: number }>(
      `SELECT count(*)::int AS n FROM holdfast.${events.queue}_archive`,
    );
    return row?.n === count;
  });

const numbers = (received: Iterable<{ key: string; body: unknown }>, key: string) =>
  [...received].filter((one) => one.key === key).map(({ body }) => (body as { n: number }).n);

const line = (key: string, count: number) =>
  Array.from({ length: count }, (_, n) => ({ type: 'order.placed' as const, key, data: { n } }));

const attempts = (events: Outbox<Events>) =>
  db.rows<{ attempts: number; status: string; last_error: string | null }>(
    `SELECT attempts, status::text, last_error FROM holdfast.${events.queue}
     UNION ALL SELECT attempts, status::text, last_error FROM holdfast.${events.queue}_archive`,
  );

function relaying(events: Outbox<Events>, sink: Sink, options = QUICK, concurrency = 50) {
  let made!: ReturnType<typeof relay>;
  const started = start(
    db.hf,
    (worker) => {
      made = relay(worker, events, sink, options);
      return worker;
    },
    { concurrency },
  );
  return Object.assign(started, { relay: made });
}

describe('an outbox', () => {
  test('publishes what your transaction commits, and nothing of one that rolls back', async () => {
    const events = await newOutbox();
    const receiver = await startReceiver();
    for (const end of ['ROLLBACK', 'COMMIT']) {
      const client = await db.pool.connect();
      await client.query('BEGIN');
      await events.publish(
        { type: 'order.paid', key: `order:${end}`, data: { n: 1, total: 25 } },
        { tx: client },
      );
      await client.query(end);
      client.release();
    }
    relaying(events, httpSink({ url: receiver.url }));
    await ends(events, 1);
    expect(receiver.got.map(({ key, body }) => [key, body])).toEqual([
      ['order:COMMIT', { n: 1, total: 25 }],
    ]);
  });

  test('says in headers what, when, about what, and in which trace', async () => {
    const events = await newOutbox();
    const receiver = await startReceiver();
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const { id } = await events.publish({
      type: 'order.paid',
      key: 'order:ü 1',
      data: { n: 1 },
      version: 3,
      occurredAt: new Date('2026-01-02T03:04:05.678Z'),
      headers: { traceparent, tenant: 'acme' },
    });
    relaying(events, httpSink({ url: receiver.url, source: '/shop' }));
    await ends(events, 1);
    expect(receiver.got[0]).toMatchObject({ id, key: 'order:ü 1' });
    expect(receiver.got[0]?.headers).toMatchObject({
      ...{ 'ce-specversion': '1.0', 'ce-id': id, 'ce-type': 'order.paid', 'ce-source': '/shop' },
      ...{ 'ce-time': '2026-01-02T03:04:05.678Z', 'ce-dataversion': '3', 'ce-fence': '1' },
      ...{ 'ce-traceparent': traceparent, traceparent, tenant: 'acme' },
      'content-type': 'application/json',
    });
  });

  test('of structured events puts all of it into the body', async () => {
    const events = await newOutbox();
    const receiver = await startReceiver();
    const { id } = await events.publish({ type: 'order.paid', key: 'k', data: { n: 7 } });
    relaying(events, httpSink({ url: receiver.url, mode: 'structured' }));
    await ends(events, 1);
    expect(receiver.got[0]).toMatchObject({ id, type: 'order.paid', key: 'k', body: { n: 7 } });
  });

  test('keeps the order of each key, with one message of a key under way, and keys side by side', async () => {
    const events = await newOutbox();
    const receiver = await startReceiver();
    const keys = Array.from({ length: 12 }, (_, n) => `order:${n}`);
    const each = long(4, 10);
    await events.publish(keys.flatMap((key) => line(key, each)));
    let [open, most] = [0, 0];
    receiver.answer = async () => {
      most = Math.max(most, ++open);
      await new Promise((resolve) => setTimeout(resolve, 2));
      open--;
      return 204;
    };
    const { relay } = relaying(events, httpSink({ url: receiver.url }));
    await ends(events, 12 * each);
    const inOrder = Array.from({ length: each }, (_, n) => n);
    for (const key of keys) expect(numbers(receiver.got, key)).toEqual(inOrder);
    expect(receiver.mostAtOnce).toBe(1);
    expect(most).toBeGreaterThan(5);
    expect(relay.stats()).toMatchObject({
      ...{ published: 12 * each, faults: 0, refused: 0, downMs: null },
    });
  });

  test('refuses what is no event, and writes nothing then', async () => {
    const events = await newOutbox();
    const wrong = [
      [{ type: 'order.paid', data: {}, at: 1 }, /no option "at"/],
      [{ type: 'order paid', data: {} }, /order paid/],
      [{ type: 'order.paid', data: { n: 1n } }, /BigInt/],
      [{ type: 'order.paid', data: {}, version: 0 }, /version of event "order.paid"/],
      [{ type: 'order.paid', data: {}, occurredAt: new Date('x') }, /occurredAt .* valid Date/],
      [null, /must be an object/],
    ] as const;
    for (const [event, message] of wrong)
      await expect(events.publish(event as never)).rejects.toThrow(message);
    expect(await attempts(events)).toEqual([]);
    expect(() => outbox(db.hf, { refused: 'keep' as never })).toThrow(/'hold' or 'free'/);
    expect(() => outbox({} as never)).toThrow(/holdfast\(\)/);
  });

  test('is made once and set again by its name', async () => {
    const events = await newOutbox();
    await outbox(db.hf, { queue: events.queue, refused: 'free', retention: '30d' }).create();
    const text = `SELECT ordering::text, (extract(epoch FROM archive_retention) / 86400)::int AS days
       FROM holdfast.queues WHERE name = $1`;
    expect(await db.rows(text, [events.queue])).toEqual([{ ordering: 'key', days: 30 }]);
  });
});

describe('an outbox with a log', () => {
  const logged = () =>
    db.rows<{ id: string; type: string; key: string; data: { n: number }; version: number }>(
      `SELECT id, type, key, data, version FROM holdfast.event_log WHERE stream = 'orders' ORDER BY position`,
    );
  const jobs = () => db.rows<{ id: string }>('SELECT id FROM holdfast.outbox ORDER BY position');
  const publisher = async () => {
    await db.rows('TRUNCATE holdfast.event_log');
    return newOutbox({ log: eventLog(db.hf, 'orders') });
  };

  test('appends what it publishes with the same ids, in your transaction or in one of its own', async () => {
    const events = await publisher();
    for (const end of ['ROLLBACK', 'COMMIT']) {
      const client = await db.pool.connect();
      await client.query('BEGIN');
      await events.publish(line(end, 2), { tx: client });
      await client.query(end);
      client.release();
    }
    const { id } = await events.publish({ type: 'order.paid', data: { n: 7 }, version: 3 });
    const rows = await logged();
    expect(rows.map(({ key, data }) => [key, data.n])).toEqual([
      ['COMMIT', 0],
      ['COMMIT', 1],
      [id, 7],
    ]);
    expect(rows[2]).toMatchObject({ id, type: 'order.paid', version: 3 });
    expect((await jobs()).map((job) => job.id)).toEqual(rows.map((row) => row.id));
  });

  test('writes neither the job nor the log of what is refused, and once what was published before', async () => {
    const events = await publisher();
    const event = { type: 'order.paid', key: 'a', data: { n: 1 }, idempotencyKey: 'one' } as const;
    await events.publish(event);
    expect(await events.publish([event, event])).toMatchObject([
      { deduplicated: true },
      { deduplicated: true },
    ]);
    const other = { type: 'order.paid', key: 'a', data: { n: 2 } } as const;
    await expect(events.publish([other, { ...other, idempotencyKey: 'one' }])).rejects.toThrow(
      /idempotency key "one"/,
    );
    const broken = outbox<Events>(db.hf, {
      log: { append: () => Promise.reject(new Error('no')) },
    });
    await expect(broken.publish(other)).rejects.toThrow('no');
    await expect(events.publish(other, { onFull: 'wait' })).rejects.toThrow(/onFull: 'wait'/);
    expect(() => outbox(db.hf, { log: {} as never })).toThrow(/what eventLog\(\) makes/);
    expect(await logged()).toHaveLength(1);
    expect(await jobs()).toHaveLength(1);
  });
});

describe('a fault of the broker', () => {
  /** Every attempt of every event was given back but the one that got through. */
  async function spentNothing(events: Outbox<Events>, count: number) {
    const rows = await attempts(events);
    expect(rows).toHaveLength(count);
    expect(rows.filter((row) => row.attempts !== 1 || row.status !== 'completed')).toEqual([]);
  }

  test('spends no attempt and loses nothing: events wait behind one question at a time', async () => {
    const events = await newOutbox();
    const receiver = await startReceiver();
    await receiver.stop();
    const keys = Array.from({ length: 30 }, (_, n) => `order:${n}`);
    const each = long(2, 4);
    await events.publish(keys.flatMap((key) => line(key, each)));
    const { relay, worker } = relaying(events, httpSink({ url: receiver.url }));
    await until('events wait', () => relay.stats().waiting >= 29 && relay.stats().faults > 30);
    expect(relay.stats().downMs).toBeGreaterThan(0);
    const before = relay.stats().faults;
    await until('it asks on', () => relay.stats().faults > before + 3);
    // One question at a time: all others stay in their handlers, and nothing was written for them.
    expect(worker.stats).toMatchObject({ snoozed: 0, failed: 0, dead_letter: 0, completed: 0 });
    await receiver.start();
    await ends(events, 30 * each);
    for (const key of keys) expect(numbers(receiver.got, key)).toEqual([0, 1, 2, 3].slice(0, each));
    await spentNothing(events, 30 * each);
  });

  test('that is 503, 429 or a lost answer is tried again, and the receiver keeps one copy in order', async () => {
    const events = await newOutbox();
    const receiver = await startReceiver();
    const how: Record<string, number> = { '503': 503, '429': 429, 'a lost answer': 0 };
    const [keys, came] = [Object.keys(how), [...Array(4).keys()]];
    receiver.answer = ({ body, key }, count) =>
      (body as { n: number }).n === 2 && count < 3 ? (how[key] as number) : 204;
    await events.publish(keys.flatMap((key) => line(key, 4)));
    relaying(events, httpSink({ url: receiver.url }));
    await ends(events, 12);
    for (const key of keys) expect(numbers(receiver.kept.values(), key), key).toEqual(came);
    await spentNothing(events, 12);
  });

  test('that is silence ends after ackTimeout, and the second copy has the same id', async () => {
    const events = await newOutbox();
    const receiver = await startReceiver();
    let silent = true;
    receiver.answer = () => (silent ? new Promise<number>(() => undefined) : 204);
    const { id } = await events.publish({ type: 'order.paid', key: 'a', data: { n: 1 } });
    const { relay } = relaying(events, httpSink({ url: receiver.url }), {
      ...QUICK,
      ackTimeout: '100ms',
    });
    await until('a fault', () => relay.stats().faults > 0);
    silent = false;
    await ends(events, 1);
    expect(new Set(receiver.got.map((one) => one.id))).toEqual(new Set([id]));
    expect(receiver.got.length).toBeGreaterThan(1);
    await spentNothing(events, 1);
  });

  test('of one address holds no keys of another, and those who wait hold no places', async () => {
    const events = await newOutbox();
    const receiver = await startReceiver();
    const sink = httpSink({
      url: ({ type }) => `${receiver.url}/${type}`,
    });
    let broken = true;
    receiver.answer = ({ path }) => (broken && path === '/order.paid' ? 503 : 204);
    await events.publish(
      Array.from({ length: 20 }, (_, n) => ({
        type: 'order.paid' as const,
        key: `paid:${n}`,
        data: { n },
      })),
    );
    await events.publish(Array.from({ length: 20 }, (_, n) => line(`placed:${n}`, 3)).flat());
    const { relay, worker } = relaying(events, sink, QUICK, 4);
    await ends(events, 60);
    expect(relay.stats().brokenTargets).toEqual([`${receiver.url}/order.paid`]);
    expect(worker.stats).toMatchObject({ failed: 0, dead_letter: 0 });
    broken = false;
    await ends(events, 80);
    await spentNothing(events, 80);
    expect(relay.stats().brokenTargets).toEqual([]);
  });

  test('that one message causes by itself spends attempts in the end, and the others go on', async () => {
    const events = await newOutbox({ refused: 'free' });
    const published: Message[] = [];
    const sink: Sink = {
      name: 'memory',
      async publish(message) {
        if (message.key === 'poison') throw new Error('the connection was closed');
        published.push(message);
      },
    };
    await events.publish({ type: 'order.paid', key: 'poison', data: { n: 0 } });
    relaying(events, sink, { maxPause: '100ms' });
    let n = 0;
    await until('it has failed by itself', async () => {
      await events.publish({ type: 'order.paid', key: `fine:${n}`, data: { n: n++ } });
      const rows = await attempts(events);
      return rows.some(({ last_error }) => last_error?.includes('the connection was closed'));
    });
    await until('the others got through', () => published.length === n);
  });

  test('lets a drain hand the events back at once, and another worker publishes them', async () => {
    const events = await newOutbox();
    const receiver = await startReceiver();
    await receiver.stop();
    await events.publish(Array.from({ length: 20 }, (_, n) => line(`order:${n}`, 2)).flat());
    const first = relaying(events, httpSink({ url: receiver.url }));
    await until('events wait', () => first.relay.stats().waiting >= 19);
    const begun = performance.now();
    await first.stop(30_000);
    expect(performance.now() - begun).toBeLessThan(5_000);
    expect(await attempts(events)).toEqual(
      Array.from({ length: 40 }, () => ({ attempts: 0, status: 'pending', last_error: null })),
    );
    await receiver.start();
    relaying(events, httpSink({ url: receiver.url }));
    await ends(events, 40);
    for (let n = 0; n < 20; n++) expect(numbers(receiver.got, `order:${n}`)).toEqual([0, 1]);
    await spentNothing(events, 40);
  });

  test('goes back to the queue after maxWait, so that another worker may try', async () => {
    const events = await newOutbox();
    await events.publish({ type: 'order.paid', key: 'a', data: { n: 1 } });
    const sink: Sink = {
      name: 'down',
      publish: () => Promise.reject(new Unavailable('down', { retryAfter: '1m' })),
    };
    const { worker } = relaying(events, sink, { maxWait: '50ms' });
    await until('it is put off', () => worker.stats.snoozed === 1);
    expect(await attempts(events)).toMatchObject([{ attempts: 0, status: 'pending' }]);
  });
});

describe('a refused message', () => {
  const refusing = (receiver: Receiver) => {
    receiver.answer = ({ body, key }) =>
      key === 'a' && (body as { n: number }).n === 1 ? 422 : 204;
  };

  test('holds its key until somebody retries it, and no other', async () => {
    const events = await newOutbox({ refused: 'hold' });
    const receiver = await startReceiver();
    refusing(receiver);
    await events.publish([...line('a', 4), ...line('b', 4)]);
    const { relay } = relaying(events, httpSink({ url: receiver.url }));
    await ends(events, 5);
    expect(numbers(receiver.got, 'a')).toEqual([0, 1]);
    expect(numbers(receiver.got, 'b')).toEqual([0, 1, 2, 3]);
    expect(relay.stats().refused).toBe(1);
    const dead = (await attempts(events)).filter(({ status }) => status === 'dead_letter');
    expect(dead[0]?.last_error).toMatch(/^DeadLetter: http: order\.placed: .* 422/);
    receiver.answer = () => 204;
    const { jobs } = await db.hf.deadLetters.list({ queue: events.queue });
    await db.hf.retry(jobs.map(({ id }) => id));
    await ends(events, 8);
    expect(numbers(receiver.kept.values(), 'a')).toEqual([0, 1, 2, 3]);
  });

  test('frees its key where the outbox says so', async () => {
    const events = await newOutbox({ refused: 'free' });
    const receiver = await startReceiver();
    refusing(receiver);
    await events.publish(line('a', 4));
    relaying(events, httpSink({ url: receiver.url }));
    await ends(events, 3);
    expect(numbers(receiver.kept.values(), 'a')).toEqual([0, 2, 3]);
  });

  test('is what a sink of yours says with DeadLetter, or a target that cannot be made', async () => {
    const events = await newOutbox({ refused: 'free' });
    const sink: Sink = {
      name: 'mine',
      target: ({ key }) => {
        if (key === 'a') throw new Error('no topic');
        return key;
      },
      publish: () => Promise.reject(new DeadLetter('never')),
    };
    await events.publish([...line('a', 1), ...line('b', 1)]);
    relaying(events, sink);
    await until('both are dead letters', async () => {
      const rows = await attempts(events);
      return rows.every(({ status }) => status === 'dead_letter');
    });
  });
});

describe('a replay', () => {
  test('publishes a range again, in order, with the ids of the events', async () => {
    const events = await newOutbox();
    const receiver = await startReceiver();
    const from = new Date(Date.now() - 60_000);
    const first = await events.publish([...line('a', 3), ...line('b', 3)]);
    await events.publish({ type: 'order.paid', key: 'a', data: { n: 99 } });
    relaying(events, httpSink({ url: receiver.url }));
    await ends(events, 7);
    const which = { from, key: 'a', type: 'order.placed' };
    expect(await events.replay({ ...which, dryRun: true })).toEqual({ events: 3, finished: true });
    expect(await events.replay({ ...which, batch: 2 })).toEqual({ events: 3, finished: true });
    await ends(events, 10);
    const again = receiver.got.slice(7);
    expect(again.map(({ id }) => id)).toEqual(first.slice(0, 3).map(({ id }) => id));
    expect(numbers(again, 'a')).toEqual([0, 1, 2]);
    expect(again[0]?.headers['ce-replayed']).toBe('1');
    expect(again[0]?.headers['ce-time']).toBe(
      receiver.kept.get(again[0]?.id as string)?.headers['ce-time'],
    );
    // Copies are not copied again.
    expect(await events.replay({ ...which, dryRun: true })).toEqual({ events: 3, finished: true });
    expect(await events.replay({ from: new Date(Date.now() + 60_000) })).toMatchObject({
      events: 0,
    });
  });
});
