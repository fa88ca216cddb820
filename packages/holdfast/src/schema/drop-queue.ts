/**
 * Dropping a queue, with its archive, its idempotency keys and its effect markers. It is refused while a job is in it,
 * whatever its state, while a worker lives that serves it, and while a schedule would write into it: nothing that was
 * accepted is ever dropped, and no schedule is left without its queue. The table is locked before it is looked at for
 * the last time, so no enqueue slips in between; what goes with it is counted before, because nobody can work meanwhile.
 */
import { HoldfastError } from '../job/errors/errors.js';
import { checkQueueName, loadText, type Names } from '../postgres/names.js';
import type { Queryable } from '../postgres/queryable.js';
import { migrationLock } from './migrate.js';
import { functionNames } from './texts.js';

/** First, as whoever sets a limit or an ordering: neither is left behind, and nobody waits for each other. */
const LOCK_QUEUE = `SELECT FROM holdfast.queues WHERE name = 'inbox' FOR UPDATE`;

const LOCK = `LOCK TABLE holdfast.inbox IN ACCESS EXCLUSIVE MODE`;

const HOLDS = `SELECT status::text AS status, count(*)::text AS jobs FROM holdfast.inbox GROUP BY status ORDER BY status`;

const SERVED = `
SELECT w.id FROM holdfast.workers AS w
WHERE w.status <> 'dead' AND w.handles ? 'inbox'
  -- Not one that was killed with its whole fleet: nobody is left to declare it dead.
  AND w.last_seen_at > now() - interval '1 millisecond' * CASE WHEN jsonb_typeof(w.metadata -> 'ttlMs') = 'number'
    THEN least((w.metadata ->> 'ttlMs')::numeric, 86400000) ELSE 30000 END
ORDER BY w.id LIMIT 5`;

const SCHEDULED = `
SELECT s.name FROM holdfast.schedules AS s WHERE s.queue = 'inbox' ORDER BY s.name LIMIT 5`;

/** So that none is made for the queue while it is dropped. */
const LOCK_SCHEDULES = `LOCK TABLE holdfast.schedules IN SHARE ROW EXCLUSIVE MODE`;

const LOSES = `
SELECT (SELECT count(*) FROM holdfast.inbox_archive)::text AS archived,
  (SELECT count(*) FROM holdfast.inbox_idempotency)::text AS keys,
  (SELECT count(*) FROM holdfast.inbox_effects)::text AS markers`;

/** Without CASCADE: what somebody else has built upon a table keeps it. */
const DROP = `
DROP TABLE holdfast.inbox, holdfast.inbox_claims, holdfast.inbox_archive, holdfast.inbox_idempotency,
  holdfast.inbox_effects, holdfast.inbox_unique, holdfast.inbox_steps, holdfast.inbox_signals, holdfast.inbox_children;
DROP FUNCTION IF EXISTS ${functionNames()
  .map((name) => `holdfast.inbox_${name}`)
  .join(', ')};
DELETE FROM holdfast.rates AS r USING holdfast.limits AS l WHERE l.id = r.limit_id AND l.queue = 'inbox';
DELETE FROM holdfast.limits WHERE queue = 'inbox';
DELETE FROM holdfast.on_dead_letter WHERE queue = 'inbox';
DELETE FROM holdfast.key_windows WHERE queue = 'inbox';
DELETE FROM holdfast.queues WHERE name = 'inbox'`;

/** What goes with a queue. */
export interface QueueLoss {
  readonly archived: number;
  readonly keys: number;
  readonly markers: number;
}

async function rows(db: Queryable, text: string, params?: unknown[]) {
  const result = await db.query(text, params);
  return Array.isArray(result) ? result : result.rows;
}

/** What would be lost; rejects with QUEUE_BUSY while it cannot be dropped. In the caller's transaction. */
export async function queueLoss(
  client: Queryable,
  schema: string,
  queue: string,
): Promise<QueueLoss> {
  const names = { schema, queue: checkQueueName(queue) };
  await refuseBusy(client, names);
  const [loss] = await rows(client, loadText(LOSES, names));
  const { archived, keys, markers } = loss as Record<string, unknown>;
  return { archived: Number(archived), keys: Number(keys), markers: Number(markers) };
}

async function refuseBusy(client: Queryable, names: Names): Promise<void> {
  const { queue } = names;
  if (queue === 'inbox') throw busy(queue, 'it is the default queue, which every schema has');
  const [known] = await rows(
    client,
    loadText(`SELECT FROM holdfast.queues WHERE name = 'inbox'`, names),
  );
  if (!known)
    throw new HoldfastError('QUEUE_UNKNOWN', `There is no queue "${queue}"; nothing was dropped.`);
  const held = await rows(client, loadText(HOLDS, names));
  if (held.length > 0) {
    const what = held.map(({ status, jobs }) => `${jobs} ${status}`).join(', ');
    throw busy(queue, `it holds jobs (${what}); let them run, or cancel and discard them`);
  }
  const served = (await rows(client, loadText(SERVED, names))).map(({ id }) => String(id));
  if (served.length > 0) throw busy(queue, `${served.join(', ')} serves it; stop it first`);
  const scheduled = await rows(client, loadText(SCHEDULED, names));
  if (scheduled.length === 0) return;
  const which = scheduled.map(({ name }) => `"${name}"`).join(', ');
  throw busy(queue, `schedules write into it (${which}); delete them, or give them another queue`);
}

/** Needs one client, not a pool. `dropped` is called in the transaction that drops it, with what was lost. */
export async function dropQueue(
  client: Queryable,
  schema: string,
  queue: string,
  dropped: (loss: QueueLoss) => Promise<void> = async () => undefined,
): Promise<QueueLoss> {
  const names = { schema, queue: checkQueueName(queue) };
  await client.query(`BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '5s'`);
  try {
    await client.query(migrationLock(schema));
    // Refused without a lock on the table, if it can be.
    const loss = await queueLoss(client, schema, queue);
    await client.query(loadText(`${LOCK_QUEUE}; ${LOCK_SCHEDULES}; ${LOCK}`, names));
    await refuseBusy(client, names);
    await client.query(loadText(DROP, names));
    await dropped(loss);
    await client.query('COMMIT');
    return loss;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

const busy = (queue: string, why: string) =>
  new HoldfastError('QUEUE_BUSY', `Queue "${queue}" was not dropped: ${why}.`);
