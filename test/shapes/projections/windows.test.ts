/**
 * Late commits: whatever order transactions begin, write and end in, every event that was committed is applied once, and
 * a transaction that stays open holds nobody up.
 */
import { setImmediate } from 'node:timers/promises';
import type { EventLog } from 'holdfast/projections';
import type pg from 'pg';
import { expect, test } from 'vitest';
import { long } from '../../support/long.js';
import { until } from '../../support/until.js';
import { agreed, MODEL, ordersOf, paid, testLogs, testProjectors, totalsOf } from './ground.js';

const logs = testLogs();
const start = testProjectors();

/** The same numbers for a seed. */
function dice(seed: number) {
  let state = seed >>> 0;
  return (sides: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

let cents = 0;

/** One transaction: some events, some of them in savepoints that are kept or not; committed, rolled back or prepared. */
async function transaction(
  client: pg.PoolClient,
  orders: EventLog,
  roll: (sides: number) => number,
  prepared: string[],
) {
  await client.query("BEGIN; SET LOCAL holdfast.notify = 'off'");
  // Sometimes the xid is older than the first event by far.
  if (roll(4) === 0) await client.query('SELECT pg_current_xact_id()');
  const locked = roll(2) === 0;
  const n = roll(5);
  const key = locked ? `locked:${n}` : `free:${n}`;
  if (locked) await client.query('SELECT pg_advisory_xact_lock(77, $1)', [n]);
  for (let i = roll(3); i >= 0; i--) {
    const save = roll(3);
    if (save > 0) await client.query('SAVEPOINT s');
    await orders.append([paid(key, ++cents), paid(key, ++cents)], { tx: client });
    if (save === 1) await client.query('ROLLBACK TO SAVEPOINT s');
    for (let ticks = roll(20); ticks > 0; ticks--) await setImmediate();
  }
  const end = roll(8);
  if (end === 0) await client.query('ROLLBACK');
  else if (end === 1 && !locked) {
    const name = `late ${++cents}`;
    await client.query(`PREPARE TRANSACTION '${name}'`);
    prepared.push(name);
  } else await client.query('COMMIT');
  const late = prepared.length > 3 || roll(4) === 0 ? prepared.shift() : undefined;
  if (late) await client.query(`${roll(3) === 0 ? 'ROLLBACK' : 'COMMIT'} PREPARED '${late}'`);
}

/** As the log says it; the order of a key only where its writers are serialised. */
const sorted = (rows: object[]) =>
  (rows as { key: string; line: string }[]).map((row) =>
    row.key.startsWith('locked')
      ? row
      : { ...row, line: row.line.split(',').sort((a, b) => Number(a) - Number(b)) },
  );

test('every committed event is applied once, in the order of its key, however transactions overlap', async () => {
  const { hf, rows, pool } = await logs();
  const orders = ordersOf(hf);
  await start(hf, [totalsOf(orders, { page: 3 })]);
  const seed = Number(process.env.HOLDFAST_SEED ?? Date.now() % 1_000_000);
  const prepared: string[] = [];
  const writers = Array.from({ length: 4 }, async (_, n) => {
    const client = await pool.connect();
    const roll = dice(seed + n);
    try {
      for (let i = 0; i < long(15, 2_000); i++) await transaction(client, orders, roll, prepared);
    } finally {
      client.release();
    }
  });
  await Promise.all(writers);
  for (const name of prepared) await pool.query(`COMMIT PREPARED '${name}'`);
  const truth = `SELECT key, sum((data ->> 'cents')::bigint)::bigint AS cents, count(*)::integer AS events,
    string_agg(data ->> 'cents', ',' ORDER BY position) AS line FROM holdfast.event_log GROUP BY key ORDER BY key`;
  let [model, log]: object[][] = [[], []];
  await until(`the read model has all (HOLDFAST_SEED=${seed})`, async () => {
    // Its tables may not be there yet.
    [model, log] = [await rows(MODEL).catch(() => []), await rows(truth)];
    const count = (of: object[]) =>
      (of as { events: number }[]).reduce((sum, one) => sum + one.events, 0);
    return count(model as object[]) >= count(log as object[]);
  });
  expect(sorted(model as object[]), `HOLDFAST_SEED=${seed}`).toEqual(sorted(log as object[]));
});

test('a transaction that stays open holds nobody up, and what it wrote is applied when it commits', async () => {
  const { hf, rows, pool } = await logs();
  const orders = ordersOf(hf);
  await start(hf, [totalsOf(orders)]);
  const open = await pool.connect();
  try {
    await open.query('BEGIN');
    await orders.append([paid('open', 1)], { tx: open });
    const rounds = long(5, 20);
    for (let round = 1; round <= rounds; round++) {
      await orders.append([paid(`key:${round}`, round)]);
      await agreed(rows);
    }
    await open.query('COMMIT');
  } finally {
    open.release();
  }
  expect(await agreed(rows)).toHaveLength(long(6, 21));
});

test('a transaction has its xid before its first position, in whichever way it writes', async () => {
  const { rows } = await logs();
  // Both are counters: if a position were taken first, its transaction could have none yet.
  await rows(`CREATE FUNCTION has_xid() RETURNS boolean LANGUAGE sql VOLATILE
    AS 'SELECT pg_current_xact_id_if_assigned() IS NOT NULL'`);
  const plan = (await rows(
    `EXPLAIN (VERBOSE, FORMAT TEXT) INSERT INTO holdfast.event_log (stream, key, type, data) SELECT 'a', 'b', 'c', '1'`,
  )) as { 'QUERY PLAN': string }[];
  const text = plan.map((row) => row['QUERY PLAN']).join('\n');
  expect(text.indexOf('pg_current_xact_id()')).toBeGreaterThan(0);
  expect(text.indexOf('nextval')).toBeGreaterThan(text.indexOf('pg_current_xact_id()'));
});
