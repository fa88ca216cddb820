/** Queries in every form that `pg` takes, for pools that have to give the same results. */
import pg from 'pg';

/** What both databases must share. */
export const SESSION = `SET TimeZone = 'Asia/Kolkata'; SET lc_messages = 'C'; SET IntervalStyle = 'postgres'`;
export const SCHEMA = `
CREATE TYPE mood AS ENUM ('glad', 'sad');
CREATE TABLE people (
  id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, name text NOT NULL, tags text[], data jsonb, mood mood,
  born date, CONSTRAINT short CHECK (length(name) < 9), UNIQUE (name)
);
CREATE TABLE pets (id int PRIMARY KEY, person int REFERENCES people (id));
INSERT INTO people (name, tags, data, mood, born)
VALUES ('Ada', '{a,"b c"}', '{"n": [1, null]}', 'glad', '1815-12-10'), ('Bob', NULL, NULL, NULL, NULL);`;

type Client = pg.PoolClient;
type Call = (client: Client) => Promise<unknown>;

/** The forms with a callback, as a promise. */
const called = (work: (callback: (error: unknown, result: unknown) => void) => void) =>
  new Promise((resolve, reject) =>
    work((error, result) => (error ? reject(error) : resolve(result))),
  );
const value = (type: string, ...values: unknown[]): [string, Call] => [
  `the parameter ${type} ${pg.escapeLiteral(typeof values[0])} ${String(values[0])}`,
  (client) => client.query(`SELECT $1::${type} AS value, pg_typeof($1::${type})::text`, values),
];
const text = (sql: string): [string, Call] => [sql, (client) => client.query(sql)];
const UPPER = { getTypeParser: () => (given: string) => given.toUpperCase() };
const NAMED = { name: 'person', text: 'SELECT name FROM people WHERE id = $1' };
class Point {
  toPostgres(prepare: (value: unknown) => unknown) {
    return prepare(['1', 2]);
  }
}

const FORMS: readonly [string, Call][] = [
  ['text and values', (client) => client.query('SELECT $1::int + 1 AS n', [1])],
  ['a config', (client) => client.query({ text: 'SELECT $1::int AS n', values: [2] })],
  ['a config and values', (client) => client.query({ text: 'SELECT $1::int AS n' }, [3])],
  ['no values', (client) => client.query({ text: 'SELECT 4 AS n', values: [] })],
  ['a callback', (client) => called((done) => client.query('SELECT 5 AS n', done))],
  ['values and a callback', (client) => called((done) => client.query('SELECT $1', ['6'], done))],
  [
    'a config and a callback',
    (client) => called((done) => client.query({ text: 'SELECT 7 AS n' }, done as never)),
  ],
  [
    'a config, values and a callback',
    (client) => called((done) => client.query({ text: 'SELECT $1' } as never, ['8'], done)),
  ],
  ['an error and a callback', (client) => called((done) => client.query('SELECT nothing', done))],
  ['rows as arrays', (client) => client.query({ text: 'SELECT 1 AS a, 2 AS a', rowMode: 'array' })],
  ['rows with equal names', (client) => client.query('SELECT 1 AS a, 2 AS a')],
  [
    'parsers of its own',
    (client) =>
      client.query({ text: `SELECT 'a' AS a, 1 AS b, now() IS NULL AS c`, types: UPPER as never }),
  ],
  [
    'parsers in binary',
    (client) =>
      client.query({
        text: 'SELECT 258::int AS n, $1::bool AS b',
        values: [true],
        binary: true,
      } as never),
  ],
  [
    'a named statement, twice',
    async (client) => [
      await client.query({ ...NAMED, values: [1] }),
      await client.query({ ...NAMED, values: [2] }),
    ],
  ],
  [
    'a name without its text',
    async (client) => {
      await client.query({ ...NAMED, values: [1] });
      return client.query({ name: 'person', values: [2] } as never);
    },
  ],
  [
    'a name with another text',
    async (client) => {
      await client.query({ ...NAMED, values: [1] });
      return client.query({ name: 'person', text: 'SELECT 1' });
    },
  ],
  [
    'a named statement that fails, and again',
    async (client) => {
      const failing = { name: 'zero', text: 'SELECT 1 / $1::int AS n' };
      await client.query('SAVEPOINT one');
      await client.query({ ...failing, values: [0] }).catch(() => undefined);
      await client.query('ROLLBACK TO one');
      return client.query({ ...failing, values: [1] });
    },
  ],
  [
    'several statements',
    (client) => client.query('SELECT 1 AS a; SELECT 2 AS b; SELECT 3 AS b LIMIT 0'),
  ],
  [
    'several statements, and one fails',
    (client) => client.query('SELECT 1; SELECT 1 / 0; SELECT 2'),
  ],
  ['several statements with values', (client) => client.query('SELECT $1; SELECT 2', ['1'])],
  ['too few values', (client) => client.query('SELECT $1::int, $2::int', [1])],
  ['values that are no array', (client) => client.query('SELECT $1', 'x' as never)],
  [
    'a value that cannot be one',
    (client) =>
      client.query('SELECT $1::text', [
        {
          toPostgres() {
            throw new Error('no');
          },
        },
      ]),
  ],
  ['no text at all', (client) => client.query({} as never)],
  ['null', async (client) => client.query(null as never)],
  [
    'rows by events',
    (client) => client.query(new pg.Query('SELECT 1 AS n')) && client.query('SELECT 2 AS n'),
  ],
  [
    'a portal that is read in parts',
    (client) =>
      called((done) =>
        client.query(
          Object.assign(
            new pg.Query(
              { text: 'SELECT * FROM generate_series(1, 7) n', rows: 2 } as never,
              done as never,
            ),
          ),
        ),
      ),
  ],
  ['COPY from a client that has no data', (client) => client.query('COPY pets FROM STDIN')],
];

const TEXTS = [
  'SELECT * FROM people ORDER BY id',
  'SELECT name, tags, data, mood, born FROM people WHERE false',
  `SELECT 1::int2 AS a, 2::int4 AS b, 3::int8 AS c, 1.50::numeric AS d, 'NaN'::numeric AS e, 1.5::float4 AS f, 'Infinity'::float8 AS g`,
  `SELECT 'a'::text AS a, 'b'::varchar AS b, 'c'::char(3) AS c, 'd'::"char" AS d, 'e'::name AS e, '5'::oid AS f`,
  `SELECT true AS a, NULL::bool AS b, '\\x00ff'::bytea AS c, gen_random_uuid() IS NULL AS d, '1.2.3.4'::inet AS e, '(1,2)'::point AS f, '<(1,2),3>'::circle AS g`,
  `SELECT '2024-02-29'::date AS a, '2024-02-29 10:00:00.123456'::timestamp AS b, '2024-02-29 10:00+02'::timestamptz AS c, '10:00'::time AS d, '10:00+02'::timetz AS e`,
  `SELECT 'infinity'::timestamptz AS a, '0044-03-15 BC'::date AS b, '1 year 2 mons -3 days 04:05:06.7'::interval AS c, '0'::interval AS d`,
  `SELECT '{"a": [1, "b"]}'::json AS a, '{"b": null}'::jsonb AS b, 'null'::json AS c, '"x"'::jsonb AS d`,
  `SELECT ARRAY[1, NULL] AS a, ARRAY['a,b', 'c"d', NULL] AS b, '{{1,2},{3,4}}'::int8[] AS c, ARRAY[1.5::numeric] AS d, ARRAY[now()] IS NULL AS e, ARRAY['2024-01-01'::date] AS f, '{t,f}'::bool[] AS g, ARRAY['{"a":1}'::json] AS h, ARRAY['\\x01'::bytea] AS i, ARRAY['1 day'::interval] AS j, '{}'::text[] AS k`,
  `SELECT ARRAY['glad'::mood] AS a, ROW(1, 'x') AS b, '[1,3)'::int4range AS c, 'a=>b'::text AS d, '101'::bit(3) AS e, '12.30'::money::numeric AS f, 'a'::tsvector AS g`,
  `INSERT INTO people (name) VALUES ('Cy'), ('Di')`,
  `INSERT INTO people (name) VALUES ('Cy') RETURNING name, mood`,
  `UPDATE people SET mood = 'sad' WHERE name = 'Ada'`,
  `DELETE FROM people WHERE name = 'Nobody' RETURNING id`,
  `MERGE INTO pets USING people ON false WHEN NOT MATCHED THEN INSERT VALUES (people.id, people.id)`,
  'CREATE TABLE made (id int)',
  'CREATE TABLE copied AS SELECT 1 AS n',
  'TRUNCATE pets',
  'SHOW TimeZone',
  'SET LOCAL work_mem = 1000',
  'EXPLAIN (COSTS OFF) SELECT 1',
  'VALUES (1), (2)',
  'COPY (SELECT 1) TO STDOUT',
  `DO $$ BEGIN RAISE NOTICE 'noted'; END $$`,
  '',
  ' ; ',
  '-- nothing',
  'SELECT',
  'COMMIT',
  'SELEC 1',
  'SELECT nothing FROM people',
  'SELECT * FROM nowhere',
  'SELECT 1 / 0',
  `INSERT INTO people (name) VALUES ('Ada')`,
  `INSERT INTO people (name) VALUES ('far too long')`,
  'INSERT INTO people (name) VALUES (NULL)',
  'INSERT INTO pets VALUES (1, 99)',
  `INSERT INTO people (name, mood) VALUES ('Cy', 'angry')`,
  `SELECT 'x'::int`,
  `DO $$ BEGIN RAISE EXCEPTION 'mine' USING ERRCODE = 'P0123', DETAIL = 'd', HINT = 'h', COLUMN = 'c', CONSTRAINT = 'k', DATATYPE = 't', TABLE = 'b', SCHEMA = 's'; END $$`,
];

const MOMENT = new Date('2024-02-29T10:00:00.123Z');
const VALUES: readonly [string, Call][] = [
  ...[value('timestamptz', MOMENT), value('timestamp', MOMENT), value('date', MOMENT)],
  ...[value('bytea', Buffer.from([0, 255, 39])), value('bytea', new Uint8Array([1, 2]))],
  ...[
    value('text[]', ['a', null, 'b"c', 'd\\e', '']),
    value('int[]', [
      [1, 2],
      [3, 4],
    ]),
    value('bytea[]', [Buffer.from('x')]),
  ],
  ...[
    value('jsonb', { a: [1, { b: MOMENT }] }),
    value('jsonb', JSON.stringify([1])),
    value('jsonb[]', [{ a: 1 }]),
  ],
  ...[
    value('text', null),
    value('text', undefined),
    value('int8', 2n ** 62n),
    value('numeric', 1.5),
  ],
  ...[value('bool', true), value('text', false), value('text', 12), value('text', 'é\'"\\😀')],
  ...[
    value('text[]', new Point()),
    value('int', 'x'),
    value('uuid', 'x'),
    value('interval', '1 day'),
  ],
];

export const CALLS = [...FORMS, ...TEXTS.map(text), ...VALUES];
