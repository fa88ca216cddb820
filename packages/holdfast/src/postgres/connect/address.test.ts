import pg from 'pg';
import { expect, test } from 'vitest';
import { addressOf, findAddress, sendable, settingsOf } from './address.js';

const ENV_URL = 'postgres://env@env.test/env';
const ENV = { DATABASE_URL: ENV_URL };
const URL_ = 'postgres://me:secret@db.test:5433/shop';
const token = async () => 'token';

test('what is said comes first, then the pool, then the environment', () => {
  const pool = new pg.Pool({ host: 'pool.test', database: 'shop', password: 'hidden' });
  const connection = { host: 'said.test', database: 'shop' };
  const found = (sources: object) => findAddress(sources, ENV);
  expect(found({ connectionString: URL_, connection, pool })).toEqual({
    address: { ...connection, connectionString: URL_ },
    besidePool: true,
  });
  expect(found({ connection, pool })).toEqual({ address: connection, besidePool: true });
  expect(found({ pool })).toEqual({
    address: { host: 'pool.test', database: 'shop', password: 'hidden' },
    besidePool: false,
  });
  expect(found({})).toEqual({ address: { connectionString: ENV_URL }, besidePool: false });
  expect(found({ pool: {} })).toEqual({ address: { connectionString: ENV_URL }, besidePool: true });
  const none = /no database to connect to.*DATABASE_URL, or PGHOST/;
  expect(() => findAddress({}, {})).toThrow(none);
  expect(() => findAddress({ connectionString: '' }, { DATABASE_URL: '', PGHOST: '' })).toThrow(
    none,
  );
});

test.each(['PGHOST', 'PGPORT', 'PGUSER', 'PGDATABASE'])(
  '%s without a URL leaves the place to the driver, which reads it',
  (name) => {
    expect(findAddress({}, { [name]: 'x' })).toEqual({ address: {}, besidePool: false });
    expect(findAddress({}, { [name]: 'x', ...ENV }).address).toEqual({ connectionString: ENV_URL });
    expect(() => findAddress({}, { PGPASSWORD: 'x', PGAPPNAME: 'x' })).toThrow(/no database/);
  },
);

test.each([
  'localhost',
  'localhost:5432/app',
  'mysql://me:secret@db.test/app',
  'host=db dbname=app',
])('%s is no URL of a Postgres database', (url) => {
  const refused = /is no URL of a Postgres database.*postgres:\/\//;
  expect(() => findAddress({ connectionString: url }, ENV)).toThrow(refused);
  expect(() => findAddress({ connection: { connectionString: url } }, ENV)).toThrow(refused);
  expect(() => findAddress({}, { DATABASE_URL: url })).toThrow(refused);
  expect(() => findAddress({}, { DATABASE_URL: url })).not.toThrow(/secret/);
});

test('the URL of a socket is one', () => {
  for (const url of ['/var/run/postgresql app', 'socket:/tmp?db=app', 'postgresql:///app'])
    expect(findAddress({ connectionString: url }, ENV).address).toEqual({ connectionString: url });
});

test('a connection that names no database adds to the pool or to the environment', () => {
  const ssl = { rejectUnauthorized: false };
  expect(findAddress({ connection: { ssl } }, ENV).address).toEqual({
    connectionString: ENV_URL,
    ssl,
  });
  const pool = new pg.Pool({ host: 'pool.test', database: 'shop' });
  expect(findAddress({ connection: { ssl }, pool }, ENV).address).toEqual({
    ...{ host: 'pool.test', database: 'shop' },
    ssl,
  });
});

test('beside a function for the password, a connection string is taken apart', () => {
  const { address } = findAddress({ connection: { password: token } }, { DATABASE_URL: URL_ });
  expect(address).toEqual({
    ...{ host: 'db.test', port: 5433, user: 'me', database: 'shop', ssl: false },
    password: token,
  });
});

test('what the string sets for its sessions is kept beside a function for the password', () => {
  const url = `${URL_}?options=-c%20search_path%3Dshop&statement_timeout=5000`;
  const { address } = findAddress({ connectionString: url, connection: { password: token } }, ENV);
  expect(address.options).toBe('-c search_path=shop -c statement_timeout=5000');
});

test('the limits of a pool are not part of its address, and the rest of a config is its settings', () => {
  const config = { host: 'a.test', max: 3, statement_timeout: 5, options: '-c role=app' };
  expect(addressOf(new pg.Pool(config).options)).toEqual({
    host: 'a.test',
    options: '-c role=app',
  });
  expect(settingsOf(config)).toEqual({ max: 3, statement_timeout: 5 });
});

test('what is sent to a thread has the key that pg hides, and no function', () => {
  const ssl = { key: 'key', ca: Buffer.from('ca'), servername: 'db.test' };
  new pg.Client({ ssl });
  expect(Object.keys(ssl)).not.toContain('key');
  const sent = structuredClone(sendable({ host: 'a.test', ssl, password: token }));
  expect(sent).toEqual({
    host: 'a.test',
    ssl: { key: 'key', ca: new Uint8Array(Buffer.from('ca')), servername: 'db.test' },
  });
  expect(sendable({ password: 'text', ssl: true })).toEqual({ password: 'text', ssl: true });
});

test.each([
  ['ssl.checkServerIdentity', { ssl: { checkServerIdentity: () => undefined } }],
  ['stream', { stream: () => undefined as never }],
])('%s cannot be sent, and the error names it', (part, address) => {
  expect(() => sendable(address)).toThrow(
    expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringContaining(part) }),
  );
});
