/**
 * Waking: by which statements a worker says that it sleeps, and the fleet says who is to be woken.
 *
 * An insert reads the published ring to find the owner of its bucket, and sends a notification only if
 * that worker sleeps; the trigger is part of the schema. To sleep is to hold two advisory locks on a
 * session of the worker's own, so a worker that dies sleeps no more. Everything here is a hint: what it
 * misses is found by the next poll.
 */
import { HoldfastError } from '../job/errors.js';
import { BUCKETS } from '../job/key.js';
import { checkQueueName, loadText, type Names } from '../postgres/names.js';
import type { Executor, Queryable } from '../postgres/queryable.js';
import { bool, int4, statement, text } from '../postgres/statement.js';

/**
 * The channel on which everybody hears that the membership has changed; the payload is the schema. With a
 * queue and buckets behind it, it says that there are jobs which nobody inserted just now. Calls that test
 * the hearing of listeners go there too.
 */
export const FLEET_CHANNEL = 'holdfast_fleet';

/** The channel of one worker, by the number of its locks. */
export function channelOf(lockKey: number): string {
  return `holdfast_${lockKey}`;
}

/** Types whose jobs the same workers can run, and which of them owns each bucket. */
export interface OwnersOfTypes {
  /** Null: every type. */
  readonly types: readonly string[] | null;
  /** The owners' lock keys by bucket; null where there is none. */
  readonly owners: readonly (number | null)[];
}

// Everybody writes part 0 first, so that two that publish at once wait for each other in one order.
export const publishOwners = statement({
  name: 'publish_ring',
  text: `
WITH given AS MATERIALIZED (
  SELECT g.part::integer - 1 AS part,
    CASE WHEN jsonb_typeof(g.value -> 'types') = 'array'
      THEN ARRAY(SELECT jsonb_array_elements_text(g.value -> 'types')) END AS types,
    ARRAY(SELECT o.owner::integer
      FROM jsonb_array_elements_text(g.value -> 'owners') WITH ORDINALITY AS o(owner, place)
      ORDER BY o.place) AS owners
  FROM jsonb_array_elements($2::text::jsonb) WITH ORDINALITY AS g(value, part)
  WHERE NOT EXISTS (SELECT FROM holdfast.inbox_ring AS r WHERE r.epoch >= $1::bigint)
), written AS (
  INSERT INTO holdfast.inbox_ring AS r (part, types, owners, epoch)
  SELECT g.part, g.types, g.owners, $1::bigint FROM given AS g ORDER BY g.part
  ON CONFLICT (part) DO UPDATE SET types = excluded.types, owners = excluded.owners, epoch = excluded.epoch
    WHERE r.epoch < excluded.epoch
  RETURNING r.part
), dropped AS (
  DELETE FROM holdfast.inbox_ring AS r
  WHERE r.epoch < $1::bigint AND r.part > (SELECT max(w.part) FROM written AS w)
)
SELECT count(*)::integer AS parts FROM written`,
  columns: { parts: int4 },
});

/** Publishes the owners of a queue's buckets, unless somebody did so for this epoch or a later one. */
export async function publishRing(
  db: Executor,
  names: Names,
  epoch: number,
  groups: readonly OwnersOfTypes[],
): Promise<boolean> {
  const odd = groups.find(({ owners }) => owners.length !== BUCKETS);
  if (odd) throw new Error(`a ring has ${BUCKETS} buckets, not ${odd.owners.length}`);
  const [row] = await db.run(publishOwners, names, [epoch, JSON.stringify(groups)]);
  return (row?.parts ?? 0) > 0;
}

// Tried and not waited for: an insert holds these locks for a moment while it looks.
export const takeSleepLocks = statement({
  name: 'fall_asleep',
  text: `
SELECT CASE WHEN pg_try_advisory_lock('holdfast.inbox'::regclass::oid::integer, $1::integer)
  THEN pg_try_advisory_lock_shared('holdfast.inbox'::regclass::oid::integer, 0)
    OR NOT pg_advisory_unlock('holdfast.inbox'::regclass::oid::integer, $1::integer)
  ELSE false END AS asleep`,
  columns: { asleep: bool },
});

/** From now on inserts tell this worker. False: somebody was looking just then; try again. */
export async function fallAsleep(db: Executor, names: Names, lockKey: number): Promise<boolean> {
  const [row] = await db.run(takeSleepLocks, names, [lockKey]);
  return row?.asleep === true;
}

export const dropSleepLocks = statement({
  name: 'get_up',
  text: `
SELECT pg_advisory_unlock('holdfast.inbox'::regclass::oid::integer, $1::integer)
  AND pg_advisory_unlock_shared('holdfast.inbox'::regclass::oid::integer, 0) AS up`,
  columns: { up: bool },
});

export async function getUp(db: Executor, names: Names, lockKey: number): Promise<boolean> {
  const [row] = await db.run(dropSleepLocks, names, [lockKey]);
  return row?.up === true;
}

export const notifyChannel = statement({
  name: 'notify_channel',
  text: 'SELECT pg_notify($1::text, $2::text)::text AS sent',
  columns: { sent: text },
});

/** To the channel of the whole fleet, so that all who listen can tell that they still hear. */
export async function ping(db: Executor, names: Names, word: string) {
  await db.run(notifyChannel, names, [FLEET_CHANNEL, word]);
}

/** More buckets than this are said as "look everywhere". */
const MANY_BUCKETS = 50;

export const notifyOwners = statement({
  name: 'notify_owners',
  text: `
SELECT pg_notify($1::text, $2::text)::text AS sent
-- A full queue of notifications would undo what was done to the jobs.
WHERE pg_notification_queue_usage() < 0.5
  AND EXISTS (SELECT FROM pg_catalog.pg_trigger AS t
    WHERE t.tgrelid = 'holdfast.inbox'::regclass AND t.tgname = 'wake' AND t.tgenabled IN ('O', 'A'))`,
  columns: { sent: text },
});

/**
 * Jobs in these buckets became claimable without an insert: whoever owns them should look. Says nothing in a
 * queue whose notifications are off.
 */
export async function tellOwners(db: Executor, names: Names, buckets: readonly number[]) {
  const all = [...new Set(buckets)];
  const list = all.length > MANY_BUCKETS ? '*' : all.join(',');
  await db.run(notifyOwners, names, [FLEET_CHANNEL, `${names.schema}:${names.queue}:${list}`]);
}

/**
 * Whether inserts into a queue wake sleeping workers at all. Off, an insert costs what it cost without
 * the trigger, and every job waits for a poll. Waits at most 5 s for transactions that write to the queue.
 * Needs one client, not a pool, and the rights of the queue's owner.
 */
export async function setNotify(client: Queryable, names: Names, on: boolean): Promise<void> {
  checkQueueName(names.queue);
  const turn = on ? 'ENABLE' : 'DISABLE';
  const text = loadText(`ALTER TABLE holdfast.inbox ${turn} TRIGGER wake`, names);
  await client.query("BEGIN; SET LOCAL lock_timeout = '5s'");
  try {
    await client.query(text);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    if ((error as { code?: string }).code !== '42P01') throw error;
    throw new HoldfastError(
      'QUEUE_UNKNOWN',
      `There is no queue "${names.queue}" in schema "${names.schema}"; nothing was changed.`,
      { cause: error },
    );
  }
}
