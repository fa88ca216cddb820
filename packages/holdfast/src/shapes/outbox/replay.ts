/** Publishing again what the archive of an outbox has: which events, and in batches that commit one by one. */
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkInteger } from '../../job/job.js';
import {
  checkFlag,
  checkKnown,
  isPlainObject,
  type Known,
} from '../../job/options/known-options.js';
import { inQueue } from '../../postgres/in-queue.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { type CopyStep, copyEvents, countEvents, type EventRange, now } from './rows/copy.js';

/**
 * Which events `replay()` publishes again.
 * @example await events.replay({ from: new Date('2026-11-18'), type: 'order.paid' });
 */
export interface ReplayEvents {
  /** Those that were written at this time or later. */
  readonly from: Date;
  /** Those that were written before this time. Default: now. */
  readonly to?: Date;
  /** Only those of this key. */
  readonly key?: string;
  /** Only those of this type. */
  readonly type?: string;
  /** Only count. Default false. */
  readonly dryRun?: boolean;
  /** Events in one transaction. Default 1,000, at most 10,000. */
  readonly batch?: number;
  /** After it is aborted no batch begins; what was done stays done. Default: none. */
  readonly signal?: AbortSignal;
}

/** What `replay()` has done. */
export interface Replayed {
  /** Events that are published again, or would be. */
  readonly events: number;
  /** There are no more. */
  readonly finished: boolean;
}

const OPTIONS = {
  ...{ from: true, to: true, key: true, type: true, dryRun: true, batch: true, signal: true },
} as const satisfies Known<ReplayEvents>;

function timeOf(value: unknown, what: string): string {
  if (value instanceof Date && !Number.isNaN(value.getTime())) return value.toISOString();
  throw invalid(`${what} of replay() must be a valid Date, not ${shown(value)}. Nothing was done.`);
}

function textOf(value: unknown, what: string): string | null {
  if (value === undefined) return null;
  if (typeof value === 'string' && value !== '') return value;
  throw invalid(`${what} of replay() must be a text, not ${shown(value)}. Nothing was done.`);
}

export async function replayEvents(
  db: Executor,
  names: Names,
  which: ReplayEvents,
): Promise<Replayed> {
  checkKnown(which, OPTIONS, 'replay()', 'Nothing was done.');
  if (!isPlainObject(which)) throw invalid(`replay() needs { from }. Nothing was done.`);
  const batch = checkInteger(which.batch ?? 1_000, 'batch', 1, 10_000);
  const dryRun = checkFlag(which.dryRun, 'dryRun', 'Nothing was done.') ?? false;
  const from = timeOf(which.from, 'from');
  // Copies that complete meanwhile are in the archive too; with a bound none of them is looked at.
  const to = which.to === undefined ? await inQueue(names, now(db, names)) : timeOf(which.to, 'to');
  const range: EventRange = {
    ...{ from, to },
    key: textOf(which.key, 'key'),
    type: textOf(which.type, 'type'),
  };
  if (dryRun)
    return { events: await inQueue(names, countEvents(db, names, range)), finished: true };
  let events = 0;
  let after: CopyStep['last'] = null;
  for (;;) {
    if (which.signal?.aborted) return { events, finished: false };
    const step: CopyStep = await inQueue(names, copyEvents(db, names, range, after, batch));
    events += step.copied;
    if (step.copied < batch || !step.last) return { events, finished: true };
    after = step.last;
  }
}
