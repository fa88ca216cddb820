/** The state of a run, in one word. A run is a row of its queue; what it waits for are its markers that have no place. */

import { asleep } from '../../postgres/taken.js';

/** Runs that are rows of a queue: the others have left it. */
export const LIVE_RUN_STATES = [
  ...['running', 'due', 'waiting', 'undoing', 'scheduled', 'dead_letter'],
] as const;

/** What a run does. */
export type RunState =
  /** A worker has it. */
  | 'running'
  /** It could go on now, and no worker has taken it yet. */
  | 'due'
  /** It sleeps, or waits for a signal, its children or the next try of a step. */
  | 'waiting'
  /** It undoes what it did, before it ends. */
  | 'undoing'
  /** Its start, or its next turn after one that failed, lies ahead. */
  | 'scheduled'
  | 'dead_letter'
  | 'completed'
  | 'cancelled'
  /** It was a dead letter, and somebody discarded it. */
  | 'discarded';

/** The state of a row of the queue. */
export const stateOfRow = (of: string) => `CASE
    WHEN ${of}.status = 'dead_letter' THEN 'dead_letter'
    WHEN ${of}.undo_asked IS NOT NULL OR EXISTS (
      SELECT FROM holdfast.inbox_steps AS u WHERE u.run_id = ${of}.id AND u.kind = '!') THEN 'undoing'
    WHEN ${of}.status = 'processing' THEN 'running'
    WHEN ${of}.available_at <= now() THEN 'due'
    WHEN ${asleep(of)} THEN 'waiting'
    ELSE 'scheduled' END`;
