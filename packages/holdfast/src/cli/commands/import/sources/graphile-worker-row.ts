/** Rows of graphile-worker 0.16 and later, as JSON, and what becomes of every column. */
import { priorityOf } from './crontab.js';
import { type Fields, isFine, LOST, lossesOf } from './fields.js';
import type { SourceJob } from './source.js';

const STAYS = 'a job that is locked, or whose queue is, stays';
const COMPUTED = 'computed from other columns';

export const JOB: Fields = {
  id: { to: 'the import key' },
  job_queue_id: { to: 'the partition key' },
  task_id: { to: 'the type' },
  payload: { to: 'the payload' },
  priority: { to: 'the priority', lost: LOST.priority, when: isFine },
  run_at: { to: 'runAt' },
  attempts: { to: 'the attempts' },
  max_attempts: { to: 'maxAttempts' },
  last_error: { to: 'the last error' },
  created_at: { lost: LOST.created },
  updated_at: { moot: 'when graphile-worker last wrote the row' },
  key: { to: 'a unique key' },
  locked_at: { moot: STAYS },
  locked_by: { moot: STAYS },
  revision: { moot: 'how often graphile-worker changed the row' },
  flags: { lost: 'its flags are not moved: pause a type or a key instead of forbidding a flag' },
  is_available: { moot: COMPUTED },
};

export const QUEUE: Fields = {
  id: { to: 'the partition key' },
  queue_name: { to: 'the partition key' },
  locked_at: { moot: STAYS },
  locked_by: { moot: STAYS },
  is_available: { moot: COMPUTED },
};

export const TASK: Fields = {
  id: { to: 'the type' },
  identifier: { to: 'the type' },
};

export const CRONTAB: Fields = {
  identifier: { to: 'the name' },
  known_since: { moot: 'when graphile-worker first read the line' },
  last_execution: {
    lost: 'when it fired last is not moved: a schedule here begins with the import',
  },
};

export function toJob(row: Record<string, string | null>): SourceJob {
  const job = JSON.parse(row.job as string) as Record<string, string | number | null>;
  const [attempts, maxAttempts] = [Number(job.attempts), Number(job.max_attempts)];
  const dead = attempts >= maxAttempts;
  return {
    id: row.id as string,
    ...{ from: row.identifier as string, names: [row.identifier as string] },
    state: dead ? 'failed' : attempts > 0 ? 'retry' : 'waiting',
    ...{ payload: row.data as string, partitionKey: row.queue_name as string | null, group: null },
    ...{ priority: priorityOf(Number(job.priority)), runAt: job.run_at as string },
    ...{ attempts, maxAttempts, dead, headers: null },
    error: job.last_error as string | null,
    once: job.key ? { key: `${job.key}`, as: 'pending' } : null,
    stays: row.queue_locked === 'true' ? 'a job of its queue runs there' : null,
    warnings: lossesOf(JOB, job),
  };
}
