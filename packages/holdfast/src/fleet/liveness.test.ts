/** The liveness lock on real sessions: who is found gone, who may be declared dead, and who never is. */
import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { INBOX, testDatabase } from '../../../../test/support/database.js';
import { long } from '../../../../test/support/long.js';
import { until } from '../../../../test/support/until.js';
import { startEmbedded } from '../../../embedded/src/index.js';
import { holdfast } from '../holdfast.js';
import { engineOptions } from '../postgres/connect/pool.js';
import { type Executor, engineExecutor } from '../postgres/queryable.js';
import { declareGone, dropLiveness, findGone, holdLiveness, markWatched } from './liveness.js';
import { leave, lockKeyOf, register } from './registry.js';

const db = testDatabase();
let count = 0;

interface Session {
  readonly db: Executor;
  readonly client: pg.Client;
}

async function session(url = db.url): Promise<Session> {
  const client = new pg.Client({ connectionString: url, options: engineOptions() });
  client.on('error', () => undefined);
  await client.connect();
  onTestFinished(() => client.end().catch(() => undefined));
  return { client, db: engineExecutor(client, { prepare: true }) };
}

/** A registered worker whose lock is held by as many sessions. */
async function worker(
  sessions: number,
  options: { watched?: boolean; seen?: boolean; url?: string } = {},
) {
  const id = `w${++count}`;
  const held: Session[] = [];
  const own = await session(options.url);
  await register(own.db, INBOX, { id, lockKey: lockKeyOf(id), handles: {}, metadata: {} });
  for (let n = 0; n < sessions; n++) {
    const one = await session(options.url);
    await holdLiveness(one.db, INBOX, id);
    held.push(one);
  }
  if (options.watched ?? true) await markWatched(own.db, INBOX, id, true);
  // A heartbeat says that its start is over.
  if (options.seen ?? true) await findGone(own.db, INBOX, id, {});
  return { id, sessions: held };
}

/** A server declares nobody dead in its first seconds. */
function serverIsOld(): Promise<unknown> {
  return until('the server has been up for ten seconds', async () => {
    const text = `SELECT WHERE pg_postmaster_start_time() < now() - interval '10 seconds'`;
    return (await db.rows(text)).length === 1;
  });
}

const free = async (watcher: string) => (await findGone(db.engine, INBOX, watcher)).free;
const status = async (id: string) =>
  (await db.rows<{ status: string }>('SELECT status FROM holdfast.workers WHERE id = $1', [id]))[0]
    ?.status;

describe('a check', () => {
  test('finds a worker gone only when the last of its sessions has ended', async () => {
    const watcher = await worker(1);
    const { id, sessions } = await worker(3);
    for (const one of sessions.slice(1)) {
      expect(await free(watcher.id)).not.toContain(id);
      await one.client.end();
    }
    expect(await free(watcher.id)).not.toContain(id);
    await sessions[0]?.client.end();
    await until('it is found', async () => (await free(watcher.id)).includes(id));
  });

  test('finds neither the watcher itself, nor those that do not hold a lock, nor the dead', async () => {
    const watcher = await worker(1);
    const unwatched = await worker(0, { watched: false });
    const dead = await worker(0);
    const gone = await worker(0);
    await leave(db.engine, INBOX, dead.id, true);
    const own = watcher.sessions[0] as Session;
    // On the session that holds the lock, where an exclusive try would succeed.
    const check = await findGone(own.db, INBOX, watcher.id);
    expect(check.free).toContain(gone.id);
    for (const { id } of [watcher, unwatched, dead]) expect(check.free).not.toContain(id);
  });

  test('holds nothing afterwards: the lock can be taken at once', async () => {
    const watcher = await session();
    const { id } = await worker(0);
    expect((await findGone(watcher.db, INBOX, 'somebody')).free).toContain(id);
    const back = await session();
    await holdLiveness(back.db, INBOX, id);
    expect((await findGone(watcher.db, INBOX, 'somebody')).free).not.toContain(id);
    expect(await dropLiveness(back.db, INBOX, id)).toBe(true);
    expect((await findGone(watcher.db, INBOX, 'somebody')).free).toContain(id);
  });

  test('tells the epoch, how many there are, and what has become of the watcher', async () => {
    const { id } = await worker(1);
    const before = await findGone(db.engine, INBOX, id);
    expect(before.status).toBe('alive');
    await worker(1);
    await leave(db.engine, INBOX, id, true);
    const after = await findGone(db.engine, INBOX, id);
    expect(after).toMatchObject({ status: 'dead', members: before.members });
    expect(after.epoch).toBe(before.epoch + 2);
    expect((await findGone(db.engine, INBOX, 'never-registered')).status).toBeNull();
  });
});

describe('declaring', () => {
  test('a worker is declared dead once, by one of many watchers, and the epoch rises', async () => {
    await serverIsOld();
    const { id } = await worker(0);
    const before = await findGone(db.engine, INBOX, id);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => declareGone(db.engine, INBOX, [id])),
    );
    expect(answers.flat()).toEqual([id]);
    expect(await status(id)).toBe('dead');
    expect(await declareGone(db.engine, INBOX, [id])).toEqual([]);
    expect((await findGone(db.engine, INBOX, id)).epoch).toBe(before.epoch + 1);
  });

  test('a worker that took its lock back, or never promised to hold it, is spared', async () => {
    await serverIsOld();
    const back = await worker(1);
    const unwatched = await worker(0, { watched: false });
    const gone = await worker(0);
    const ids = [back.id, unwatched.id, gone.id];
    expect(await declareGone(db.engine, INBOX, ids)).toEqual([gone.id]);
    expect([await status(back.id), await status(unwatched.id)]).toEqual(['alive', 'alive']);
  });

  test('a worker that has not been seen since it registered is spared for a minute: it is starting', async () => {
    await serverIsOld();
    const { id } = await worker(0, { seen: false });
    expect(await declareGone(db.engine, INBOX, [id])).toEqual([]);
    await db.rows(
      `UPDATE holdfast.workers SET started_at = now() - interval '61 s', last_seen_at = now() - interval '61 s'
       WHERE id = $1`,
      [id],
    );
    expect(await declareGone(db.engine, INBOX, [id])).toEqual([id]);
  });

  test('those that are gone with most of the fleet are told so, and nobody else', async () => {
    await serverIsOld();
    await db.rows('DELETE FROM holdfast.workers');
    const standing = await worker(1);
    const gone = [await worker(0), await worker(0)];
    const together = async () => {
      const rows = await db.rows<{ id: string }>(
        `SELECT id FROM holdfast.workers WHERE metadata -> 'vanishedTogether' = 'true' ORDER BY id`,
      );
      return rows.map(({ id }) => id);
    };
    // Two of three, though only one of them was declared dead.
    const [first, second] = gone.map(({ id }) => id) as [string, string];
    expect(await declareGone(db.engine, INBOX, [first])).toEqual([first]);
    expect(await together()).toEqual([first, second]);
    // It was not gone after all.
    await findGone(db.engine, INBOX, second, {});
    expect(await together()).toEqual([first]);
    // One of two is not most of them; and whoever came later was no witness.
    expect(await declareGone(db.engine, INBOX, [second])).toEqual([second]);
    expect(await together()).toEqual([first]);
    const lone = await worker(0);
    await db.rows(`UPDATE holdfast.workers SET status = 'dead' WHERE id = $1`, [standing.id]);
    expect(await declareGone(db.engine, INBOX, [lone.id])).toEqual([lone.id]);
    expect(await together()).toEqual([first]);
  });

  test('a worker whose row is just being written is passed over, not waited for', async () => {
    await serverIsOld();
    const busy = await worker(0);
    const gone = await worker(0);
    const writer = await session();
    await writer.client.query('BEGIN');
    await writer.client.query('UPDATE holdfast.workers SET last_seen_at = now() WHERE id = $1', [
      busy.id,
    ]);
    expect(await declareGone(db.engine, INBOX, [busy.id, gone.id])).toEqual([gone.id]);
    await writer.client.query('COMMIT');
    expect(await declareGone(db.engine, INBOX, [busy.id])).toEqual([busy.id]);
  });

  test('the name of a worker may hold anything', async () => {
    await serverIsOld();
    const id = `host-"{},\\'-🦀`;
    await register(db.engine, INBOX, { id, lockKey: lockKeyOf(id), handles: {}, metadata: {} });
    await markWatched(db.engine, INBOX, id, true);
    await findGone(db.engine, INBOX, id, {});
    expect(await free('somebody')).toContain(id);
    expect(await declareGone(db.engine, INBOX, [id])).toEqual([id]);
  });
});

test('after a restart of the server nobody is declared dead until all have had time to return', async () => {
  const server = await startEmbedded({ throwaway: true });
  onTestFinished(() => server.stop());
  const hf = holdfast({ connectionString: server.url });
  await hf.migrate();
  await hf.close();
  const { id } = await worker(2, { url: server.url });
  await server.restart('immediate');
  const watcher = await session(server.url);
  expect((await findGone(watcher.db, INBOX, 'somebody')).free).toEqual([id]);
  expect(await declareGone(watcher.db, INBOX, [id])).toEqual([]);
  // That they are declared dead by a server that has been up for longer is shown above. In full it is this server.
  if (!long(false, true)) return;
  const declared = await until('it is declared dead', async () => {
    const ids = await declareGone(watcher.db, INBOX, [id]);
    const { rows } = await watcher.client.query(
      'SELECT extract(epoch FROM now() - pg_postmaster_start_time())::float8 AS up',
    );
    return ids.length > 0 ? { ids, up: rows[0].up as number } : null;
  });
  expect(declared.ids).toEqual([id]);
  expect(declared.up).toBeGreaterThanOrEqual(10);
}, 120_000);
