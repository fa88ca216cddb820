/**
 * What a job that became a dead letter says of itself: the payload of the job that `onDeadLetter` names. The database writes
 * both in one statement, also when a process recovers the job that has never heard of its definition. So it must know
 * all that the job gets: what only code can say, a unique key or the key of a rate, is refused here.
 */

import { HoldfastError } from './errors/errors.js';
import type { QueueName } from './queue-name.js';

/** The payload of an `onDeadLetter` job. */
export interface DeadJob<Payload = unknown> {
  readonly id: string;
  readonly queue: QueueName;
  readonly type: string;
  /** Of the payload, which is as it was enqueued: of an older version if `version` is older. */
  readonly version: number;
  readonly key: string;
  readonly payload: Payload;
  /** `failed`: its last attempt. `dead_letter`: it was given up. `vanished`: its workers died while they ran it. */
  readonly outcome: 'failed' | 'dead_letter' | 'vanished';
  /** As `last_error` has it: in the first line name and message. */
  readonly error: string;
  readonly attempts: number;
  /** ISO 8601. */
  readonly diedAt: string;
}

/** As the database has it. */
export interface Hook {
  readonly queue: QueueName;
  readonly type: string;
  readonly version: number;
  readonly priority: number;
  readonly maxAttempts: number;
}

interface HookJob extends Hook {
  readonly hasLimitKey: boolean;
  readonly hasUnique: boolean;
}

/** `job` was made by `job()`. `where` and `undone` are parts of the error. */
export function hookOf(job: HookJob, where: string, undone: string): Hook {
  const { queue, type, version, priority, maxAttempts } = job;
  const key = job.hasLimitKey ? 'the key of its rate' : job.hasUnique ? 'its unique key' : null;
  if (key === null) return { queue, type, version, priority, maxAttempts };
  throw new HoldfastError(
    'OPTION_INVALID',
    `onDeadLetter of ${where} is job "${type}", and ${key} is computed in code; the database writes the job without it. ` +
      `${undone} Name a job without ${job.hasLimitKey ? 'limit.rate.key' : 'unique'}, which may enqueue this one.`,
  );
}
