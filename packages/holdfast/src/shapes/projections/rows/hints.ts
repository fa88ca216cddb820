/** Notifications of the log: on which channel, by which lock they are asked for, and how one is sent by hand. */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { bool, statement, text } from '../../../postgres/statement.js';

export const findEventChannel = statement({
  name: 'find_event_channel',
  text: `SELECT concat('holdfast_', 'holdfast.event_log'::regclass::oid) AS channel`,
  columns: { channel: text },
});

export async function eventChannel(db: Executor, names: Names): Promise<string> {
  return (await db.run(findEventChannel, names, []))[0]?.channel as string;
}

export const wantEventHints = statement({
  name: 'want_event_hints',
  text: `SELECT pg_advisory_lock_shared('holdfast.event_log'::regclass::oid::integer, 0)::text AS held`,
  columns: { held: text },
});

export const refuseEventHints = statement({
  name: 'refuse_event_hints',
  text: `SELECT pg_advisory_unlock_shared('holdfast.event_log'::regclass::oid::integer, 0) AS dropped`,
  columns: { dropped: bool },
});

/** On the session that listens: from now on inserts send notifications, or no more. */
export async function wantHints(db: Executor, names: Names, on: boolean): Promise<void> {
  if (on) await db.run(wantEventHints, names, []);
  else await db.run(refuseEventHints, names, []);
}

export const hintEvents = statement({
  name: 'hint_events',
  text: `SELECT pg_notify(concat('holdfast_', 'holdfast.event_log'::regclass::oid), $1::text)::text AS sent`,
  columns: { sent: text },
});

const ACTED = 'acted';

/** Projectors look at once for what an operator wants of them. Without a word it would be of events. */
export async function hint(db: Executor, names: Names, word = ACTED): Promise<void> {
  await db.run(hintEvents, names, [word]);
}
