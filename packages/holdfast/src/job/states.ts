/**
 * States: every way in which a job may move, as data.
 *
 * The diagram in docs/states.md is drawn from this table, a test tries every verb in every state against
 * a real database and expects exactly what stands here, and the check constraints of the queue table
 * assert the states once more. A verb that is not listed for a state must change nothing and say so.
 */

/** Where a job can be. The first three are rows of the queue, the others rows of its archive. */
export type JobState =
  | 'pending'
  | 'processing'
  | 'dead_letter'
  | 'completed'
  | 'cancelled'
  | 'discarded';

export type Verb =
  | 'claim'
  | 'renew'
  | 'isolate'
  | 'complete'
  | 'fail'
  | 'dead_letter'
  | 'release'
  | 'snooze'
  | 'cancelOwn'
  | 'recover'
  | 'retry'
  | 'discard'
  | 'cancel'
  | 'update'
  | 'replay'
  | 'restore';

export interface Transition {
  readonly verb: Verb;
  readonly by: 'worker' | 'owner' | 'maintenance' | 'operator';
  readonly from: JobState;
  readonly to: JobState;
  /** What the statement itself demands, beside the state. */
  readonly guard: string;
}

const OWNED = 'owner, generation, live lease';
const REPLAYED = 'row lock; its idempotency key stands for no other job';

export const TRANSITIONS: readonly Transition[] = [
  {
    verb: 'claim',
    by: 'worker',
    from: 'pending',
    to: 'processing',
    guard: 'due, type and version handled, nothing of it paused, row lock',
  },
  {
    verb: 'claim',
    by: 'worker',
    from: 'processing',
    to: 'processing',
    guard: 'lease expired, type and version handled, nothing of it paused, row lock',
  },
  { verb: 'renew', by: 'owner', from: 'processing', to: 'processing', guard: OWNED },
  { verb: 'isolate', by: 'owner', from: 'processing', to: 'processing', guard: OWNED },
  { verb: 'complete', by: 'owner', from: 'processing', to: 'completed', guard: OWNED },
  {
    verb: 'fail',
    by: 'owner',
    from: 'processing',
    to: 'pending',
    guard: `${OWNED}, attempts left`,
  },
  {
    verb: 'fail',
    by: 'owner',
    from: 'processing',
    to: 'dead_letter',
    guard: `${OWNED}, attempts spent`,
  },
  { verb: 'dead_letter', by: 'owner', from: 'processing', to: 'dead_letter', guard: OWNED },
  {
    verb: 'release',
    by: 'owner',
    from: 'processing',
    to: 'pending',
    guard: `${OWNED}; restores the attempt`,
  },
  {
    verb: 'snooze',
    by: 'owner',
    from: 'processing',
    to: 'pending',
    guard: `${OWNED}; restores the attempt`,
  },
  { verb: 'cancelOwn', by: 'owner', from: 'processing', to: 'cancelled', guard: OWNED },
  {
    verb: 'recover',
    by: 'maintenance',
    from: 'processing',
    to: 'pending',
    guard: 'in a claim of its owner; lease expired or owner dead; row lock',
  },
  {
    verb: 'recover',
    by: 'maintenance',
    from: 'processing',
    to: 'dead_letter',
    guard: 'the same, and its attempts were spent alone, or 20 crashes',
  },
  { verb: 'retry', by: 'operator', from: 'dead_letter', to: 'pending', guard: 'row lock' },
  { verb: 'discard', by: 'operator', from: 'dead_letter', to: 'discarded', guard: 'row lock' },
  { verb: 'cancel', by: 'operator', from: 'pending', to: 'cancelled', guard: 'row lock' },
  {
    verb: 'cancel',
    by: 'operator',
    from: 'processing',
    to: 'cancelled',
    guard: 'row lock; the owner finds its lease lost',
  },
  {
    verb: 'update',
    by: 'operator',
    from: 'pending',
    to: 'pending',
    guard: 'row lock; its type, if that was named',
  },
  { verb: 'replay', by: 'operator', from: 'cancelled', to: 'pending', guard: REPLAYED },
  { verb: 'replay', by: 'operator', from: 'discarded', to: 'pending', guard: REPLAYED },
  {
    verb: 'replay',
    by: 'operator',
    from: 'completed',
    to: 'pending',
    guard: `${REPLAYED}; only if that was asked for`,
  },
  { verb: 'restore', by: 'operator', from: 'discarded', to: 'dead_letter', guard: REPLAYED },
];
