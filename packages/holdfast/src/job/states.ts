/**
 * Every way in which a job may move. The diagram in docs/states.md is drawn from this table, and a test tries every verb in
 * every state against a real database. A verb that is not listed for a state must change nothing and say so.
 */

/** Where a job can be. The first three are rows of the queue, the others rows of its archive. */
export type JobState =
  | 'pending'
  | 'processing'
  | 'dead_letter'
  | 'completed'
  | 'cancelled'
  | 'discarded';

/**
 * A run of a workflow that waits is a row of its queue with the status `pending`, which no claim reads before its time. It
 * moves in other ways than a job that is due.
 */
export type RowState = JobState | 'waiting';

type Row = readonly [verb: string, Transition['by'], from: RowState, to: RowState, guard: string];

const OWNED = 'owner, generation, live lease';
const FREE = 'type and version handled, nothing of it paused, row lock';
const RESTORING = `${OWNED}; restores the attempt`;
const DEAD = 'in a claim of its owner; lease expired or owner dead; row lock';
const SPENT = 'the same, and its attempts were spent alone, or 20 crashes';
const LOCKED = 'row lock';
const RUN = `${LOCKED}; a run that has taken a step`;
const REPLAYED = `${LOCKED}; no other job has its idempotency key`;

const ROWS = [
  ['claim', 'worker', 'pending', 'processing', `due, ${FREE}`],
  ['claim', 'worker', 'processing', 'processing', `lease expired, ${FREE}`],
  ['renew', 'owner', 'processing', 'processing', OWNED],
  ['isolate', 'owner', 'processing', 'processing', OWNED],
  ['complete', 'owner', 'processing', 'completed', OWNED],
  ['fail', 'owner', 'processing', 'pending', `${OWNED}, attempts left`],
  ['fail', 'owner', 'processing', 'dead_letter', `${OWNED}, attempts spent`],
  ['dead_letter', 'owner', 'processing', 'dead_letter', OWNED],
  ['release', 'owner', 'processing', 'pending', RESTORING],
  ['snooze', 'owner', 'processing', 'pending', RESTORING],
  ['cancelOwn', 'owner', 'processing', 'cancelled', OWNED],
  ['recover', 'maintenance', 'processing', 'pending', DEAD],
  ['recover', 'maintenance', 'processing', 'dead_letter', SPENT],
  ['retry', 'operator', 'dead_letter', 'pending', LOCKED],
  ['discard', 'operator', 'dead_letter', 'discarded', LOCKED],
  ['cancel', 'operator', 'pending', 'cancelled', LOCKED],
  ['cancel', 'operator', 'processing', 'cancelled', `${LOCKED}; the owner finds its lease lost`],
  ['update', 'operator', 'pending', 'pending', `${LOCKED}; its type, if that was named`],
  ['wake', 'operator', 'pending', 'pending', `${LOCKED}; an update to now, by itself`],
  ['wake', 'operator', 'processing', 'processing', `${LOCKED}; kept until the attempt settles`],
  ['suspend', 'owner', 'processing', 'waiting', `${OWNED}; nothing that it waits for is there`],
  ['restart', 'owner', 'processing', 'pending', `${OWNED}; its steps are forgotten`],
  ['signal', 'operator', 'waiting', 'pending', `${LOCKED}; it waits for this signal`],
  ['wake', 'operator', 'waiting', 'pending', `${LOCKED}; an update to now, by itself`],
  ['update', 'operator', 'waiting', 'waiting', `${LOCKED}; of its priority alone`],
  ['undo', 'operator', 'waiting', 'pending', RUN],
  ['undo', 'operator', 'pending', 'pending', RUN],
  ['undo', 'operator', 'processing', 'processing', `${RUN}; its turn hears of it`],
  ['cancel', 'operator', 'waiting', 'cancelled', LOCKED],
  ['replay', 'operator', 'cancelled', 'pending', REPLAYED],
  ['replay', 'operator', 'discarded', 'pending', REPLAYED],
  ['replay', 'operator', 'completed', 'pending', `${REPLAYED}; only if that was asked for`],
  ['restore', 'operator', 'discarded', 'dead_letter', REPLAYED],
] as const satisfies readonly Row[];

/** What moves a job from state to state. */
export type Verb = (typeof ROWS)[number][0];

/** One way a job goes from state to state. */
export interface Transition {
  readonly verb: Verb;
  readonly by: 'worker' | 'owner' | 'maintenance' | 'operator';
  readonly from: RowState;
  readonly to: RowState;
  /** What the statement itself demands, beside the state. */
  readonly guard: string;
}

/** Every way a job may go from state to state. */
export const TRANSITIONS: readonly Transition[] = ROWS.map(([verb, by, from, to, guard]) => ({
  ...{ verb, by, from, to, guard },
}));
