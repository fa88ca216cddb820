/** `holdfast jobs show ID`: everything that is known of one job; its payload and its result only with --payload. */
import { type ShownJob, showJob } from '../../../inspect/job/show.js';
import type { Call } from '../../command.js';
import { Failure } from '../../failures.js';
import { oneId } from '../../parse/values.js';

type HistoryEntry = Readonly<
  Partial<Record<'at' | 'outcome' | 'worker' | 'error', string> & { attempt: number }>
>;

export async function run({ args, given, session, out }: Call): Promise<void> {
  const id = oneId(args);
  const queues = await session.queueNames(given.texts('queue'));
  const withPayload = given.flag('payload');
  const job = await session.read((db) => showJob(db, session.schema, queues, id, withPayload));
  if (!job) {
    throw new Failure(
      `No job ${id} is in ${queues.map((name) => `"${name}"`).join(', ')}, nor in the archive. ` +
        `holdfast explain ${id} says what that may mean.`,
    );
  }
  const { payload, result, ...rest } = job;
  if (out.json) return out.value(withPayload ? { ...rest, payload, result } : rest);
  await out.facts(lines(job));
  if (withPayload) await out.part('payload', payload);
  if (withPayload && result !== null) await out.part('result', result);
  if (Array.isArray(job.history)) await history(out, job.history);
}

function lines(job: ShownJob): Record<string, string | number | null> {
  return {
    id: job.id,
    queue: job.archived ? `${job.queue} (archive)` : job.queue,
    status: job.archived && job.status === 'dead_letter' ? 'discarded' : job.status,
    type: job.version === 1 ? job.type : `${job.type} (version ${job.version})`,
    key: job.partitionKey,
    group: job.groupKey,
    bucket: job.partitionBucket,
    ordering: job.ordering === 'none' ? null : job.ordering,
    position: job.position,
    priority: job.priority,
    attempts: `${job.attempts} of ${job.maxAttempts}`,
    crashes: job.crashes > 0 ? job.crashes : null,
    generation: job.leaseGeneration,
    created: job.createdAt,
    due: job.runAt,
    claimed: job.claimedAt,
    worker: job.claimedBy,
    'lease until': job.leaseExpiresAt,
    ended: job.completedAt,
    'idempotency key': job.idempotencyKey,
    headers: job.headers === null ? null : JSON.stringify(job.headers),
    error: job.lastError,
  };
}

async function history(out: Call['out'], entries: readonly HistoryEntry[]): Promise<void> {
  if (entries.length === 0) return;
  await out.line('');
  await out.rows(entries, [
    { title: 'AT', of: (entry) => entry.at ?? null },
    { title: 'ATTEMPT', of: (entry) => entry.attempt ?? null, align: 'right' },
    { title: 'OUTCOME', of: (entry) => entry.outcome ?? null },
    { title: 'WORKER', of: (entry) => entry.worker ?? null },
    { title: 'ERROR', of: (entry) => entry.error ?? null },
  ]);
}
