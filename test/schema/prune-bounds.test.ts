/** A round of pruning reads what it deletes: after two retentions, and while a transaction keeps vacuum away. */
import type pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import {
  type AgedPruning,
  pruneChunk,
  pruneEffects,
  pruneIdempotency,
  pruneUnique,
  rememberPruned,
} from '../../packages/holdfast/src/maintenance/prune.js';
import { INBOX, testDatabase } from '../support/database.js';
import { buffers, explained, planSession } from '../support/plans.js';

const db = testDatabase();
const work = job<object>('work');
let session: pg.Client;
beforeAll(async () => {
  session = await planSession(db.url);
});
afterAll(() => session.end());

const held = new Set<() => Promise<void>>();
afterEach(async () => {
  for (const release of held) await release();
});

/** A transaction that has run this is open until it is released. */
async function holding(text: string): Promise<() => Promise<void>> {
  const client = await db.pool.connect();
  const release = async () => {
    if (!held.delete(release)) return;
    await client.query('ROLLBACK');
    client.release();
  };
  held.add(release);
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
  await client.query(text);
  return release;
}

beforeEach(async () => {
  await db.rows(`UPDATE holdfast.queues SET serviced_at = '{}'`);
  for (const table of ['inbox', 'inbox_idempotency', 'inbox_unique', 'inbox_effects'])
    await db.rows(`DELETE FROM holdfast.${table}`);
});

interface Table {
  readonly what: AgedPruning;
  readonly table: string;
  readonly at: string;
  /** Rows from number $1 to $2, which stand for the job $3 or for none and are due in $4. */
  readonly insert: string;
}

const SERIES = `FROM generate_series($1::integer, $2::integer) AS n`;
const AT = `now() + $4::interval`;
const TABLES: Record<string, Table> = {
  'idempotency keys': {
    ...{ what: pruneIdempotency, table: 'inbox_idempotency', at: 'expires_at' },
    insert: `INSERT INTO holdfast.inbox_idempotency (key, job_id, fingerprint, expires_at)
      SELECT 'k' || n, coalesce($3::uuid, holdfast.new_id()), 'x', ${AT} ${SERIES}`,
  },
  'effect markers': {
    ...{ what: pruneEffects, table: 'inbox_effects', at: 'created_at' },
    insert: `INSERT INTO holdfast.inbox_effects (job_id, name, value, generation, created_at)
      SELECT coalesce($3::uuid, holdfast.new_id()), 'e' || n, '{}', 1, ${AT} - interval '7 days' ${SERIES}`,
  },
  'unique keys': {
    ...{ what: pruneUnique, table: 'inbox_unique', at: 'prune_at' },
    insert: `INSERT INTO holdfast.inbox_unique (type, key, jobs, prune_at)
      SELECT 'work', 'k' || n, ARRAY[coalesce($3::uuid, holdfast.new_id())], ${AT} ${SERIES}`,
  },
};

/** As a service does it. Returns how many it pruned. */
async function round(what: AgedPruning, limit = 5_000): Promise<number> {
  let [upTo, pruned, seen]: [string | null, number, number] = [null, 0, limit];
  while (seen === limit) {
    const chunk = await pruneChunk(db.engine, INBOX, what, limit, upTo);
    [upTo, pruned, seen] = [chunk.upTo, pruned + chunk.pruned, chunk.seen];
  }
  if (upTo !== null) await rememberPruned(db.engine, INBOX, what, upTo);
  return pruned;
}

async function reads({ what }: Table): Promise<number> {
  const name = `bound_${what.name}`;
  await session.query(`PREPARE ${name} AS ${what.text}`);
  await explained(session, name, [5_000, null]);
  const plan = await explained(session, name, [5_000, null]);
  await session.query(`DEALLOCATE ${name}`);
  return buffers(plan);
}

describe.each(Object.entries(TABLES))('of %s', (_, one) => {
  const { what, table, at, insert } = one;

  test('a round with nothing to do reads next to nothing, however much was deleted before', async () => {
    const release = await holding('SELECT txid_current()');
    for (let part = 0; part < 3; part++) {
      await db.rows(insert, [part * 8_000 + 1, part * 8_000 + 8_000, null, '0']);
      await db.rows(`VACUUM holdfast.${table}`);
      expect(await round(what)).toBe(8_000);
    }
    await db.rows(insert, [50_001, 52_000, null, '1 day']);
    expect(await reads(one)).toBeLessThanOrEqual(20);
    await release();
    // And by what it deletes otherwise.
    await db.rows(insert, [60_001, 60_100, null, '0']);
    expect(await reads(one)).toBeLessThanOrEqual(1_500);
    expect(await db.rows(`SELECT FROM holdfast.${table}`)).toHaveLength(2_000);
  });

  test('those that stand for a job stay, and the next round does not read them again', async () => {
    const { id } = await db.hf.enqueue(work, {});
    await db.rows(insert, [1, 3_000, id, '0']);
    await db.rows(insert, [3_001, 3_010, null, '0']);
    expect(await round(what, 1_000)).toBe(10);
    expect(await db.rows(`SELECT FROM holdfast.${table}`)).toHaveLength(3_000);
    expect(await reads(one)).toBeLessThanOrEqual(20);
    // When the job is gone, they go too.
    await db.rows('DELETE FROM holdfast.inbox');
    await db.rows(`UPDATE holdfast.${table} SET ${at} = ${at} - interval '1 day'`);
    await db.rows(`UPDATE holdfast.queues SET serviced_at = '{}'`);
    expect(await round(what)).toBe(3_000);
  });

  test('one that somebody has locked is passed over, and found when it is free', async () => {
    await db.rows(insert, [1, 50, null, '0']);
    const release = await holding(
      `SELECT FROM holdfast.${table} WHERE ctid = (SELECT max(ctid) FROM holdfast.${table}) FOR UPDATE`,
    );
    expect(await round(what)).toBe(49);
    expect(await round(what)).toBe(0);
    await release();
    expect(await round(what)).toBe(1);
  });
});
