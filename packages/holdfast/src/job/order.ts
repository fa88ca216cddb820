/**
 * Order between the jobs of one key, and the word for it in the registry of queues. `key`: a job starts when all earlier
 * ones of its key are completed or dead letters; one that waits for a retry, or for its time, holds its key. `key_strict`:
 * dead letters hold it too, until a human acts. A queue with an order is read by key, others by time or in turns (turns.ts).
 */
import { invalid, shown } from './errors/holdfast-error.js';

export type Ordering = 'none' | 'key' | 'key_strict' | 'turns';

/**
 * Whether the jobs of a partition key run in order.
 * @example await hf.createQueue('orders', { ordering: 'key', deadLetters: 'hold' });
 */
export type OrderOptions = InOrder | NotInOrder;

/** The jobs of a partition key run in order. */
export interface InOrder {
  /** `'key'`: the jobs of a partition key run one at a time, in the order of their enqueues. Default `'none'`. */
  readonly ordering: 'key';
  /** With `ordering: 'key'`: a dead letter frees its key (`'free'`, default) or holds it until you act (`'hold'`). */
  readonly deadLetters?: 'free' | 'hold';
}

/** They run as workers have time. */
export interface NotInOrder {
  /** `'key'`: the jobs of a partition key run one at a time, in the order of their enqueues. Default `'none'`. */
  readonly ordering?: 'none';
  /** Only with `ordering: 'key'`: whether a dead letter holds its key. */
  readonly deadLetters?: "deadLetters needs ordering: 'key' beside it." | undefined;
}

/** Null: nothing was asked for. `where` names the queue in the message. */
export function checkOrdering(where: string, options: OrderOptions): Ordering | null {
  const { ordering, deadLetters } = options;
  if (ordering !== undefined && ordering !== 'none' && ordering !== 'key')
    throw refused(where, `ordering must be 'none' or 'key', not ${shown(ordering)}`);
  if (deadLetters !== undefined && deadLetters !== 'free' && deadLetters !== 'hold')
    throw refused(where, `deadLetters must be 'free' or 'hold', not ${shown(deadLetters)}`);
  if (deadLetters !== undefined && ordering !== 'key')
    throw refused(where, "deadLetters is about a job's key and needs ordering: 'key' beside it");
  if (ordering !== 'key') return ordering ?? null;
  return deadLetters === 'hold' ? 'key_strict' : 'key';
}

/** By property of a queue, an example of one that has it. */
const OF_QUEUES: Readonly<Record<string, string>> = {
  ...{ ordering: `ordering: 'key'`, deadLetters: `ordering: 'key'` },
  ...{ perKey: 'perKey: 2', perGroup: 'perGroup: 20', fair: 'fair: true', weights: 'fair: true' },
};

/** Order belongs to the queue: one index serves all of its jobs, and none can overtake by its definition. */
export function refuseOrdering(type: string, options: object): void {
  const asked = Object.keys(OF_QUEUES).find((name) => name in options);
  if (asked === undefined) return;
  throw refused(
    `Job "${type}"`,
    `${asked} is a property of a queue: createQueue('orders', { ${OF_QUEUES[asked]} }) makes one, and ` +
      `job('${type}', { queue: 'orders' }) goes there`,
  );
}

export const refused = (where: string, problem: string) =>
  invalid(`${where}: ${problem}. Nothing was done.`);
