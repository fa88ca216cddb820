/** The proxy of the torture: it reads the protocol whichever way it is cut, and cuts where it is told to. */
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { messageCutter, openLine, statementReader } from '../../torture/proxy.mjs';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';

const db = testDatabase();

function message(type: string, ...texts: string[]): Buffer {
  const body = Buffer.from(texts.map((text) => `${text}\0`).join(''));
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(4 + body.length, 1);
  return Buffer.concat([head, body]);
}

test('messages are found in a stream that comes byte by byte', () => {
  const startup = Buffer.concat([Buffer.from([0, 0, 0, 8]), Buffer.from([0, 3, 0, 0])]);
  const stream = Buffer.concat([startup, message('Q', 'SELECT 1'), message('Q', 'COMMIT')]);
  const cut = messageCutter(true);
  const found = [...stream].flatMap((byte) => cut(Buffer.from([byte])));
  expect(found.map(({ type, bytes }) => [type, bytes.length])).toEqual([
    [0, 8],
    [81, 14],
    [81, 12],
  ]);
});

test('a prepared statement is known by its text when it is executed later', () => {
  const read = statementReader();
  const told = [
    message('P', 'claim', 'UPDATE x'),
    message('B', '', 'claim'),
    message('E', ''),
    message('B', '', 'other'),
    message('E', ''),
    message('Q', 'COMMIT'),
  ].map((bytes) => read({ type: bytes[0] as number, bytes }));
  expect(told).toEqual([null, null, 'UPDATE x', null, '', 'COMMIT']);
});

async function connected() {
  const line = await openLine(db.url);
  onTestFinished(() => line.stop());
  const client = new pg.Client({ connectionString: line.url });
  client.on('error', () => undefined);
  await client.connect();
  await client.query('CREATE TABLE IF NOT EXISTS facts (n integer)');
  await client.query('TRUNCATE facts');
  return { line, client };
}

const facts = async () => (await db.rows('SELECT n FROM facts')).length;

test('a commit whose answer is cut has happened; one whose request is cut has not', async () => {
  for (const [where, left] of [
    ['answer', 1],
    ['request', 0],
  ] as const) {
    const { line, client } = await connected();
    await client.query('BEGIN');
    await client.query('INSERT INTO facts VALUES ($1)', [1]);
    line.cuts.push({ statement: /^COMMIT$/, where, times: 1 });
    await expect(client.query('COMMIT')).rejects.toThrow();
    expect(line.cutsMade).toBe(1);
    await until('the outcome is settled', async () => (await facts()) === left);
  }
});

test('a silent line answers nothing, and a healed one serves again', async () => {
  const { line, client } = await connected();
  line.silent = true;
  const asked = client.query('SELECT 1').then(
    () => 'answered',
    () => 'cut',
  );
  line.heal();
  expect(await asked).toBe('cut');
  const again = new pg.Client({ connectionString: line.url });
  await again.connect();
  expect((await again.query('SELECT 2 AS two')).rows).toEqual([{ two: 2 }]);
  await again.end();
});

test('delayed messages keep their order', async () => {
  const { line, client } = await connected();
  line.delayMs = 30;
  const first = client.query('SELECT 1 AS n');
  line.delayMs = 0;
  const second = client.query('SELECT 2 AS n');
  expect((await first).rows).toEqual([{ n: 1 }]);
  expect((await second).rows).toEqual([{ n: 2 }]);
  await client.end();
});
