/**
 * The liveness lock of real processes: a killed one is missed within seconds at default settings, where
 * its heartbeat would be missed after half a minute. One that lives is not missed.
 */
import { expect, test } from 'vitest';
import { lockKeyOf } from '../../packages/holdfast/src/fleet/registry.js';
import { Child } from '../support/child.js';
import { type Ground, ground } from '../support/ground.js';
import { Line } from '../support/line.js';
import { longTest } from '../support/long.js';
import { until } from '../support/until.js';
import { watchersAreOld } from '../support/watchers.js';

type Kept = Child & { workerId: string };

/** A process whose lock is held and that others watch. */
async function kept(url: string, setup: object = {}): Promise<Kept> {
  const child = new Child('keeper', { url, setup });
  const { workerId } = await child.hears('watched');
  return Object.assign(child, { workerId: workerId as string });
}

async function status(db: Ground, worker: Kept): Promise<string | undefined> {
  const text = 'SELECT status FROM holdfast.workers WHERE id = $1';
  return (await db.rows<{ status: string }>(text, [worker.workerId]))[0]?.status;
}

const isDead = (db: Ground, worker: Kept) =>
  until('it is declared dead', async () => (await status(db, worker)) === 'dead', {
    timeoutMs: 15_000,
  });

/** The sessions that hold the lock of a worker. */
function holders(db: Ground, workerId: string) {
  return db.rows<{ pid: number }>(
    `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock'
       AND objid = ($1::int8 & 4294967295)::oid`,
    [lockKeyOf(workerId)],
  );
}

test('a killed process is declared dead within three seconds, by one of the others', async () => {
  const db = await ground();
  const others = await Promise.all([kept(db.url), kept(db.url)]);
  const killed = await Promise.all([kept(db.url), kept(db.url)]);
  await watchersAreOld(db);
  const toldOf = (victim: Kept) =>
    [...others, ...killed].flatMap((child) =>
      child.messages.filter(({ kind, keys }) => kind === 'gone' && keys?.includes(victim.workerId)),
    );
  for (const victim of killed) {
    const at = performance.now();
    victim.signal('SIGKILL');
    await isDead(db, victim);
    expect(performance.now() - at).toBeLessThan(3_000);
    // Whoever has declared it says so a moment after the row does; the next to be killed may be the one.
    await until('somebody has told of it', () => toldOf(victim).length > 0);
  }
  for (const victim of killed) expect(toldOf(victim)).toHaveLength(1);
  for (const other of others) expect(await status(db, other)).toBe('alive');
});

/** It has one session left and can open no others: each try is cut off. Returns what ends that. */
async function thinOut(db: Ground, worker: Kept): Promise<() => void> {
  const sessions = await until('two sessions hold the lock', async () => {
    const pids = await holders(db, worker.workerId);
    return pids.length >= 2 ? pids : null;
  });
  const [first] = sessions;
  const cut = setInterval(
    () =>
      // The last one may be cut off with the test.
      void db
        .rows(
          `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
           AND objid = ($1::int8 & 4294967295)::oid AND pid <> $2`,
          [lockKeyOf(worker.workerId), first?.pid],
        )
        .catch(() => undefined),
    50,
  );
  return () => clearInterval(cut);
}

longTest(
  'who is frozen, has one session left, or comes back after all his connections broke is not declared dead',
  async () => {
    const db = await ground();
    const line = await Line.to(db.url);
    await line.mend();
    const [broken, frozen, thin, ...killed] = (await Promise.all([
      kept(line.url),
      // The last one watches.
      ...Array.from({ length: 6 }, () => kept(db.url)),
    ])) as [Kept, Kept, Kept, ...Kept[]];
    killed.pop();
    expect(killed).toHaveLength(3);
    await watchersAreOld(db);
    // It keeps its lock: that it is frozen is for its heartbeats to show.
    frozen.signal('SIGSTOP');
    const thickenUp = await thinOut(db, thin);
    try {
      for (const victim of killed) {
        const before = await holders(db, broken.workerId);
        expect(before.length).toBeGreaterThanOrEqual(2);
        victim.signal('SIGKILL');
        line.cut();
        await line.mend();
        // Whoever declared this one dead has looked at the others as often.
        await isDead(db, victim);
        const after = await holders(db, broken.workerId);
        expect(after.length).toBeGreaterThanOrEqual(2);
        expect(after.filter(({ pid }) => before.some((one) => one.pid === pid))).toEqual([]);
      }
      for (const one of [broken, frozen, thin]) expect(await status(db, one)).toBe('alive');
    } finally {
      thickenUp();
    }
    expect(broken.heard('dead')).toBeUndefined();
  },
);

test('a worker that was declared dead hears of it by the next look, and its lock follows its new id', async () => {
  const db = await ground();
  const worker = await kept(db.url);
  const at = performance.now();
  await db.rows(`UPDATE holdfast.workers SET status = 'dead' WHERE id = $1`, [worker.workerId]);
  await worker.hears('dead', { workerId: worker.workerId });
  // Its heartbeat, at ten seconds, would have told it too.
  expect(performance.now() - at).toBeLessThan(4_000);
  worker.tell({ do: 'reregister' });
  const next = (await worker.hears('reregistered')).workerId as string;
  await until('all its sessions hold the new lock, and none the old one', async () => {
    const [mine, old] = [await holders(db, next), await holders(db, worker.workerId)];
    return mine.length === 2 && old.length === 0;
  });
  await until('others watch the new one', async () => {
    const text = 'SELECT FROM holdfast.workers WHERE id = $1 AND holds_liveness_lock';
    return (await db.rows(text, [next])).length === 1;
  });
});

test('a heartbeat tells the load, and a look the epoch of the fleet', async () => {
  const db = await ground();
  const worker = await kept(db.url, { heartbeatMs: 200 });
  // The first may be sent before its process has told the thread of any load.
  const metadata = await until('a heartbeat with a load', async () => {
    const [row] = await db.rows<{ metadata: { load?: { running: number } } }>(
      'SELECT metadata FROM holdfast.workers',
    );
    return row?.metadata.load?.running && row.metadata;
  });
  expect(metadata).toMatchObject({
    note: 'kept',
    load: { running: 3, held: 7, failed: { inbox: 2 } },
  });
  const other = await kept(db.url);
  const [row] = await db.rows<{ epoch: number }>('SELECT epoch::int FROM holdfast.fleet');
  await worker.hears('epoch', { generation: row?.epoch as number });
  await other.hears('epoch', { generation: row?.epoch as number });
});
