/**
 * Waking: by which statements a worker asks producers for hints, and hints are sent without an insert. An insert sends a
 * hint to its queue's channel only if some worker waits for one (schema/functions/fleet/wake.sql.ts): one that holds
 * advisory locks, shared, on a session of its own. What a hint misses is found by the next poll.
 */
import { inQueue } from '../postgres/in-queue.js';
import { checkQueueName, loadText, type Names } from '../postgres/names.js';
import type { Executor, Queryable } from '../postgres/queryable.js';
import { bool, statement, text } from '../postgres/statement.js';

/** The channel that says that the membership has changed; the payload is the schema. */
export const FLEET_CHANNEL = 'holdfast_fleet';

export const findChannel = statement({
  name: 'find_channel',
  text: `SELECT concat('holdfast_', 'holdfast.inbox'::regclass::oid) AS channel`,
  columns: { channel: text },
});

/** The channel of a queue. */
export async function channelOf(db: Executor, names: Names): Promise<string> {
  const [row] = await db.run(findChannel, names, []);
  return row?.channel as string;
}

export const listenLock = statement({
  name: 'listen_lock',
  text: `SELECT pg_advisory_lock_shared('holdfast.fleet'::regclass::oid::integer, 0)::text AS held`,
  columns: { held: text },
});

/** On the session that listens: inserts into queues in which nobody is active send hints from now on. */
export async function holdListening(db: Executor, names: Names): Promise<void> {
  await db.run(listenLock, names, []);
}

/** The second number of the locks of a queue: hints are wanted; a worker is active there, and says whether it wants them. */
export const WANTS_HINTS = 0;
export const ACTIVE = -2;

export const takeQueueLock = statement({
  name: 'hold_queue_lock',
  text: `SELECT pg_advisory_lock_shared('holdfast.inbox'::regclass::oid::integer, $1::integer)::text AS held`,
  columns: { held: text },
});

/** An insert that reads at the same moment is waited for. */
export async function holdQueueLock(db: Executor, names: Names, lock: number): Promise<void> {
  await db.run(takeQueueLock, names, [lock]);
}

export const dropQueueLock = statement({
  name: 'drop_queue_lock',
  text: `SELECT pg_advisory_unlock_shared('holdfast.inbox'::regclass::oid::integer, $1::integer) AS dropped`,
  columns: { dropped: bool },
});

export async function leaveQueueLock(db: Executor, names: Names, lock: number): Promise<void> {
  await db.run(dropQueueLock, names, [lock]);
}

export const notifyChannel = statement({
  name: 'notify_channel',
  text: 'SELECT pg_notify($1::text, $2::text)::text AS sent',
  columns: { sent: text },
});

/** To the channel of the whole fleet, so that all listeners see that notifications still arrive. */
export async function ping(db: Executor, names: Names, word: string) {
  await db.run(notifyChannel, names, [FLEET_CHANNEL, word]);
}

/** Off for two-phase commits. It has this name in every schema. */
const NOTIFY_SETTING = 'holdfast.notify';

export const notifyQueue = statement({
  name: 'notify_queue',
  text: `
SELECT pg_notify(concat('holdfast_', 'holdfast.inbox'::regclass::oid), concat(
  floor(date_part('epoch', $1::text::timestamptz) * 10)::bigint, ':', $2::text))::text AS sent
-- A full queue of notifications would undo what was done to the jobs.
WHERE pg_notification_queue_usage() < 0.5
  AND current_setting($3::text, true) IS DISTINCT FROM 'off'
  AND EXISTS (SELECT FROM pg_catalog.pg_trigger AS t
    WHERE t.tgrelid = 'holdfast.inbox'::regclass AND t.tgname = 'wake' AND t.tgenabled IN ('O', 'A'))`,
  columns: { sent: text },
});

/** A job that waits again. */
export interface ReturnedJob {
  /** From when on it is due; 'infinity' for a dead letter. */
  readonly runAt: string;
  readonly partitionBucket: number;
}

/** A hint names no more buckets than this. */
const MAX_BUCKETS = 100;

/**
 * These jobs came back without an insert. The hint says since when they are due and where they are, because
 * cursors have passed them. Says nothing in a queue whose notifications are off.
 */
export async function hintQueue(db: Executor, names: Names, jobs: readonly ReturnedJob[]) {
  const waiting = jobs.filter(({ runAt }) => runAt !== 'infinity');
  // Postgres' timestamps sort as text.
  const [since] = waiting.map(({ runAt }) => runAt).sort();
  if (since === undefined) return;
  const buckets = [...new Set(waiting.map(({ partitionBucket }) => partitionBucket))];
  const list = buckets.length > MAX_BUCKETS ? '*' : buckets.join(',');
  await db.run(notifyQueue, names, [since, list, NOTIFY_SETTING]);
}

/**
 * Whether inserts into a queue wake sleeping workers; off, every job waits for a poll. Waits at most 5 s for transactions
 * that write to the queue. In the caller's transaction, with the rights of the queue's owner.
 */
export async function setNotify(client: Queryable, names: Names, on: boolean): Promise<void> {
  checkQueueName(names.queue);
  const verb = on ? 'ENABLE' : 'DISABLE';
  const text = loadText(`ALTER TABLE holdfast.inbox ${verb} TRIGGER wake`, names);
  await client.query("SET LOCAL lock_timeout = '5s'");
  await inQueue(names, Promise.resolve(client.query(text)));
}
