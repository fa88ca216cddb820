/**
 * Time moves forward for a whole database: every moment that Holdfast has stored is moved back by as much. What
 * is delayed becomes due, leases run out, workers fall silent, keys and markers grow old. No clock is changed.
 */
import type { Duration, Holdfast } from 'holdfast';
import { durationMs, MAX_DELAY_MS, withTransaction } from 'holdfast/internal';
import { depsOf } from './deps.js';
import { execute, queueNames } from './rows.js';

const BY = `$1::text::bigint * interval '1 millisecond'`;

/** A run that waits for no time is due then, in the end of all times. */
const NEVER = `'9999-01-01'`;
const moved = (time: string) =>
  `CASE WHEN ${time} < ${NEVER} THEN ${time} - ${BY} ELSE ${time} END`;

/** Each of one queue; infinity, where dead letters lie, stays infinity. */
const OF_QUEUE = [
  `UPDATE holdfast.inbox AS i SET available_at = ${moved('i.available_at')}, wait_until = ${moved('i.wait_until')},
    created_at = i.created_at - ${BY}, claimed_at = i.claimed_at - ${BY}, lease_expires_at = i.lease_expires_at - ${BY}`,
  `UPDATE holdfast.inbox_steps AS s SET at = s.at - ${BY}, check_at = s.check_at - ${BY}, due_at = s.due_at - ${BY}`,
  `UPDATE holdfast.inbox_signals AS s SET sent_at = s.sent_at - ${BY}, check_at = s.check_at - ${BY}`,
  `UPDATE holdfast.inbox_children AS c SET check_at = c.check_at - ${BY}`,
  `UPDATE holdfast.inbox_archive AS a SET created_at = a.created_at - ${BY},
    claimed_at = a.claimed_at - ${BY}, completed_at = a.completed_at - ${BY}`,
  `UPDATE holdfast.inbox_claims AS c SET claimed_at = c.claimed_at - ${BY}`,
  `UPDATE holdfast.inbox_idempotency AS k SET expires_at = k.expires_at - ${BY}`,
  `UPDATE holdfast.inbox_unique AS u SET kept_until = u.kept_until - ${BY}, prune_at = u.prune_at - ${BY}`,
  `UPDATE holdfast.inbox_effects AS e SET created_at = e.created_at - ${BY}`,
  `UPDATE holdfast.queues AS q SET maintained_at = q.maintained_at - ${BY},
    serviced_at = coalesce((SELECT jsonb_object_agg(s.key, CASE jsonb_typeof(s.value)
        WHEN 'string' THEN to_jsonb((s.value #>> '{}')::timestamptz - ${BY}) ELSE s.value END)
      FROM jsonb_each(q.serviced_at) AS s), '{}'),
    archive_segments = (SELECT jsonb_object_agg(s.key, s.value::timestamptz - ${BY})
      FROM jsonb_each_text(q.archive_segments) AS s),
    waiting_at = q.waiting_at - ${BY}, recount_at = q.recount_at - ${BY} WHERE q.name = 'inbox'`,
];

const OF_FLEET = [
  `UPDATE holdfast.workers AS w SET last_seen_at = w.last_seen_at - ${BY}, started_at = w.started_at - ${BY}`,
  `UPDATE holdfast.rates AS r SET started_tat = r.started_tat - ${BY}`,
];

/**
 * Moves time forward for all jobs and schedules.
 * @example await advance(hf, '1h');
 */
export async function advance(hf: Holdfast, by: Duration): Promise<void> {
  const { ownPool, schema } = depsOf(hf);
  const ms = String(durationMs(by, 'the time to advance by', { max: MAX_DELAY_MS }));
  await withTransaction(ownPool, async (tx) => {
    for (const queue of await queueNames(tx, schema))
      for (const text of OF_QUEUE) await execute(tx, { schema, queue }, text, [ms]);
    for (const text of OF_FLEET) await execute(tx, { schema, queue: 'inbox' }, text, [ms]);
  });
}

const SIDE_TABLES = [
  ...['', '_archive', '_claims', '_idempotency', '_unique', '_effects'],
  ...['_steps', '_signals', '_children'],
];

/**
 * Empties every queue with its archive, keys and markers, and resets rates. Queues, settings and your tables stay.
 * @example await clearJobs(hf);
 */
export async function clearJobs(hf: Holdfast): Promise<void> {
  const { ownPool, schema } = depsOf(hf);
  await withTransaction(ownPool, async (tx) => {
    await execute(tx, { schema, queue: 'inbox' }, 'DELETE FROM holdfast.rates');
    for (const queue of await queueNames(tx, schema))
      for (const table of SIDE_TABLES)
        await execute(tx, { schema, queue }, `DELETE FROM holdfast.inbox${table}`);
  });
}
