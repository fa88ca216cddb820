/** The listener: it comes back, it notices when nothing arrives, and it stays off behind a pooler. */
import { once } from 'node:events';
import net from 'node:net';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { testDatabase } from '../../../../../test/support/database.js';
import { Line } from '../../../../../test/support/line.js';
import { until } from '../../../../../test/support/until.js';
import type { Executor } from '../queryable.js';
import { type ListenerDeps, newListener } from './listen.js';
import { behindPooler } from './pooled.js';

const db = testDatabase();
const NAMES = { schema: 'holdfast', queue: 'inbox' };
const SESSIONS = `SELECT pid FROM pg_stat_activity
  WHERE application_name = 'holdfast listener' AND datname = current_database()`;

/** A statement that no user of the listener has. */
const doing = (text: string) => (on: Executor) =>
  on.run({ name: 'test', text, columns: {} }, NAMES, []);

const say = (channel: string, word: string) => db.rows('SELECT pg_notify($1, $2)', [channel, word]);

function listen(options: Partial<ListenerDeps> = {}) {
  const seen = { heard: [] as string[], ups: 0, downs: 0, errors: [] as string[] };
  const listener = newListener({
    address: { connectionString: db.url },
    channels: () => ['test_-1', 'test_other'],
    prepare: async () => undefined,
    up: () => void seen.ups++,
    down: () => void seen.downs++,
    notified: (channel, payload) => void seen.heard.push(`${channel} ${payload}`),
    ping: async (word) => void (await say('test_-1', word)),
    reportError: (what, error) => void seen.errors.push(`${what}: ${(error as Error).message}`),
    ...options,
  });
  listener.start();
  onTestFinished(() => listener.stop());
  return { listener, seen };
}

test('it hears its channels, with its locks taken before the first word', async () => {
  let prepared = false;
  const { seen } = listen({
    prepare: async (on) => {
      await doing('SELECT pg_advisory_lock(4711)')(on);
      prepared = true;
    },
    up: () => expect(prepared).toBe(true),
  });
  await until('it is prepared', () => prepared);
  await until('it hears', async () => {
    await say('test_other', 'a');
    return seen.heard.length > 0;
  });
  expect(seen.heard[0]).toBe('test_other a');
  const [row] = await db.rows('SELECT pg_try_advisory_xact_lock(4711) AS free');
  expect(row?.free).toBe(false);
});

test('a program that parses integers as BigInt is not taken for a pooler', async () => {
  const parse = pg.types.getTypeParser(pg.types.builtins.INT4);
  pg.types.setTypeParser(pg.types.builtins.INT4, BigInt);
  onTestFinished(() => pg.types.setTypeParser(pg.types.builtins.INT4, parse));
  const { seen } = listen();
  await until('it listens, or has failed', () => seen.ups + seen.errors.length > 0);
  expect(seen).toMatchObject({ ups: 1, errors: [] });
  const pool = new pg.Pool({ connectionString: db.url, max: 1 });
  onTestFinished(() => pool.end());
  expect(await behindPooler(pool)).toBe(false);
});

test('after its session was ended it comes back and hears again, and both are told', async () => {
  const { listener, seen } = listen();
  await until('it listens', () => seen.ups === 1);
  await db.rows(`SELECT pg_terminate_backend(pid) FROM (${SESSIONS}) AS s`);
  await until('it listens again', () => seen.ups === 2);
  expect(seen.downs).toBe(1);
  expect(listener.state).toBe('on');
  await say('test_-1', 'b');
  await until('it hears', () => seen.heard.includes('test_-1 b'));
});

test('it outlives an outage, however long, and nothing of it ends the process', async () => {
  const line = await Line.to(db.url);
  const { seen } = listen({ address: { connectionString: line.url } });
  await until('it has tried and failed', () => seen.errors.length >= 3);
  await line.mend();
  await until('it listens', () => seen.ups === 1);
  line.cut();
  await until('it has noticed', () => seen.downs === 1);
  await line.mend();
  await until('it listens again', () => seen.ups === 2);
});

test('a session that is open and receives nothing is noticed and replaced', async () => {
  const { listener, seen } = listen({ pingEveryMs: 40, pingTimeoutMs: 60 });
  await until('it listens', () => seen.ups === 1);
  await listener.run(doing('UNLISTEN *'));
  await until('it listens again', () => seen.ups === 2);
  expect(seen.errors).toEqual([expect.stringContaining('a ping to the listener did not arrive')]);
  await say('test_-1', 'c');
  await until('it hears', () => seen.heard.includes('test_-1 c'));
});

test('a listener that receives anything need not ping: of two with a channel in common one pings for both', async () => {
  const calls = { often: 0, rarely: 0 };
  const calling = (who: 'often' | 'rarely') => async (word: string) => {
    calls[who]++;
    await say('test_-1', word);
  };
  const rarely = listen({ pingEveryMs: 400, ping: calling('rarely') });
  const often = listen({ pingEveryMs: 20, ping: calling('often') });
  // So many calls take longer than the silence that the other one bears.
  await until('one has called often', () => calls.often > 60);
  expect(calls.rarely).toBe(0);
  expect([rarely.seen.downs, often.seen.downs]).toEqual([0, 0]);
});

test('a process that was busy while its ping came in keeps its session', async () => {
  let calls = 0;
  const { seen } = listen({
    pingEveryMs: 20,
    pingTimeoutMs: 60,
    // The word is on its way while this thread spins, past the time within which it should be heard.
    ping: async (word) => {
      calls++;
      // The last ones are cut off with the test.
      db.rows(`SELECT pg_notify('test_-1', $1) FROM pg_sleep(0.03)`, [word]).catch(() => undefined);
      setTimeout(() => {
        const until = performance.now() + 120;
        while (performance.now() < until);
      }, 15);
    },
  });
  await until('it was called often', () => calls > 5);
  expect(seen).toMatchObject({ ups: 1, downs: 0, errors: [] });
});

test('a ping that cannot be sent says nothing about the session', async () => {
  const { seen } = listen({
    pingEveryMs: 20,
    pingTimeoutMs: 20,
    ping: () => Promise.reject(new Error('no connection')),
  });
  await until('it was tried often', () => seen.errors.length > 3);
  expect(new Set(seen.errors)).toEqual(new Set(['pinging the listener: no connection']));
  expect(seen.downs).toBe(0);
});

test('a statement that fails ends the session, and with it whatever locks it left', async () => {
  const { listener, seen } = listen();
  await until('it listens', () => seen.ups === 1);
  await listener.run(doing('SELECT pg_advisory_lock(4712)'));
  await expect(listener.run(doing('SELECT 1/0'))).rejects.toThrow('division by zero');
  await until('it listens again', () => seen.ups === 2);
  await until('the lock is free', async () => {
    const [row] = await db.rows(`SELECT pg_try_advisory_xact_lock(4712) AS free`);
    return row?.free;
  });
});

/** As a pooler would, it greets with a process number of its own. */
async function falseGreeter(): Promise<string> {
  const to = new URL(db.url);
  const server = net.createServer((near) => {
    const far = net.connect(Number(to.port), to.hostname);
    far.on('data', (chunk) => {
      const at = chunk.indexOf(Buffer.from([0x4b, 0, 0, 0, 12]));
      if (at >= 0) chunk.writeInt32BE(chunk.readInt32BE(at + 5) + 1_000_000, at + 5);
      near.write(chunk);
    });
    near.pipe(far);
    for (const socket of [near, far]) {
      socket.on('error', () => undefined);
      socket.on('close', () => void [near, far].map((one) => one.destroy()));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const own = new URL(db.url);
  own.port = String((server.address() as net.AddressInfo).port);
  return own.toString();
}

test('behind a pooler it says so once, stays off, and leaves nothing in the session', async () => {
  const prepared: unknown[] = [];
  const { listener, seen } = listen({
    address: { connectionString: await falseGreeter() },
    prepare: async (on) => void prepared.push(on),
  });
  await until('it is off', () => listener.state === 'off');
  expect(seen.errors).toEqual([expect.stringContaining('listenUrl')]);
  expect([prepared, seen.ups]).toEqual([[], 0]);
  await until('its session is gone', async () => (await db.rows(SESSIONS)).length === 0);
});

test('it stops at once, also while it connects or waits, and its session ends', async () => {
  const line = await Line.to(db.url);
  const away = listen({ address: { connectionString: line.url } });
  await until('it has tried and failed', () => away.seen.errors.length > 0);
  const here = listen();
  await until('it listens', () => here.seen.ups === 1);
  const from = performance.now();
  await Promise.all([away.listener.stop(), here.listener.stop()]);
  expect(performance.now() - from).toBeLessThan(400);
  await until('no session is left', async () => (await db.rows(SESSIONS)).length === 0);
  expect(here.listener.state).toBe('off');
});
