/**
 * How the keys of a queue share its workers: at most so many jobs of a key or a group at once, and turns. A queue
 * that is asked for any of it is read by key, and its jobs of a key do not wait for each other (`turns`).
 */
import { shown } from './errors/holdfast-error.js';
import { checkInteger } from './job.js';
import { checkKey } from './key.js';
import { isPlainObject } from './options/known-options.js';
import { checkOrdering, type InOrder, type NotInOrder, type Ordering, refused } from './order.js';

/** How partition keys and groups share the workers of a queue. */
export interface TurnOptions {
  /** At most so many jobs of a partition key at once, in the whole fleet. Default `null`: any number. */
  readonly perKey?: number | null;
  /** At most so many jobs of a group at once, in the whole fleet. Default `null`: any number. */
  readonly perGroup?: number | null;
  /** Keys take turns: a key with many jobs delays the others by one turn. Default false. */
  readonly fair?: boolean;
  /** With `fair`: how many jobs a key gets in a turn. Default 1 for each. */
  readonly weights?: Readonly<Record<string, number>>;
}

/** How a queue is read: with the jobs of each key in order, or with keys that share the workers. */
export type ReadPolicyOptions =
  | (InOrder & {
      readonly perKey?: OneAtATime | null;
      readonly perGroup?: OneAtATime | null;
      readonly fair?: OneAtATime | false;
      readonly weights?: OneAtATime | undefined;
    })
  | (NotInOrder & TurnOptions);

/** What the compiler shows: the jobs of a key run one at a time. */
type OneAtATime = "ordering: 'key' runs one job of a key at a time: leave out one of them.";

/** How a queue is read. */
export interface ReadPolicy {
  readonly ordering: Ordering;
  readonly perKey: number | null;
  readonly perGroup: number | null;
  readonly fair: boolean;
  readonly weights: Readonly<Record<string, number>>;
}

export const BY_TIME: ReadPolicy = {
  ...{ ordering: 'none', perKey: null, perGroup: null, fair: false, weights: {} },
};

const MOST_AT_ONCE = 10_000;
const MOST_WEIGHT = 1_000;
const MOST_WEIGHTS = 1_000;

/** What is asked of a queue that is read as `now` says; null: nothing about how it is read. */
export function checkPolicy(
  where: string,
  options: ReadPolicyOptions,
  now: ReadPolicy = BY_TIME,
): ReadPolicy | null {
  const ordering = checkOrdering(where, options);
  const asked = checkTurns(where, options as TurnOptions);
  const names = Object.keys(asked);
  if (names.length === 0) return ordering === null ? null : { ...BY_TIME, ordering };
  const isTurns = now.ordering === 'turns';
  const next = { ...(isTurns ? now : BY_TIME), ...asked };
  const limits = next.fair || next.perKey !== null || next.perGroup !== null;
  if (ordering === 'key' || ordering === 'key_strict') {
    if (!limits) return { ...BY_TIME, ordering };
    throw refused(
      where,
      `${names[0]} is for a queue without ordering: 'key', which runs one job of a key at a time. ` +
        'Leave out one of them',
    );
  }
  if (ordering === null && !isTurns && now.ordering !== 'none' && limits) {
    throw refused(
      where,
      `it runs one job of a key after the other, and ${names[0]} lets them run beside each other. ` +
        `Pass ordering: 'none' beside it to change that, while the queue is empty`,
    );
  }
  if (!next.fair && Object.keys(asked.weights ?? {}).length > 0)
    throw refused(where, 'weights say how many jobs a key gets a turn, and need fair: true');
  if (limits)
    return { ...next, ordering: 'turns', weights: next.fair ? next.weights : BY_TIME.weights };
  if (isTurns && ordering === null) {
    throw refused(
      where,
      "nothing would be left of perKey, perGroup and fair. Pass ordering: 'none' to have it read by time, " +
        'while it is empty',
    );
  }
  return ordering === null ? null : BY_TIME;
}

/** What was given, checked. */
function checkTurns(where: string, options: TurnOptions): Partial<Omit<ReadPolicy, 'ordering'>> {
  const { perKey, perGroup, fair, weights } = options;
  const count = (value: number | null, name: string) =>
    value === null ? null : checkInteger(value, `${where}: ${name}`, 1, MOST_AT_ONCE);
  if (fair !== undefined && typeof fair !== 'boolean')
    throw refused(where, `fair must be true or false, not ${shown(fair)}`);
  return {
    ...(perKey !== undefined && { perKey: count(perKey, 'perKey') }),
    ...(perGroup !== undefined && { perGroup: count(perGroup, 'perGroup') }),
    ...(fair !== undefined && { fair }),
    ...(weights !== undefined && { weights: checkWeights(where, weights) }),
  };
}

function checkWeights(where: string, weights: unknown): Readonly<Record<string, number>> {
  if (!isPlainObject(weights))
    throw refused(
      where,
      `weights must be an object such as { 'tenant:7': 3 }, not ${shown(weights)}`,
    );
  const pairs = Object.entries(weights);
  if (pairs.length > MOST_WEIGHTS)
    throw refused(where, `${pairs.length} weights are more than the ${MOST_WEIGHTS} allowed`);
  for (const [key, weight] of pairs) {
    try {
      checkKey(key);
    } catch {
      throw refused(where, `${shown(key)} in weights can be no partition key`);
    }
    checkInteger(weight, `${where}: the weight of ${shown(key)}`, 1, MOST_WEIGHT);
  }
  return Object.fromEntries(pairs) as Record<string, number>;
}
