/** `holdfast jobs show ID`: everything that is known of one job; its payload and its result only with --payload. */
import { type ShownJob, showJob } from '../../../inspect/job/show.js';
import type { Call } from '../../command.js';
import { Failure } from '../../failures.js';
import { oneId } from '../../parse/ids.js';
import { plain } from '../../print/table.js';

interface HistoryEntry {
  readonly at?: string;
  readonly attempt?: number;
  readonly outcome?: string;
  readonly worker?: string;
  readonly error?: string;
}

export async function run({ args, given, session, out }: Call): Promise<void> {
  const id = oneId(args, 'jobs show');
  const queues = (await session.queues(given.texts('queue'))).map((queue) => queue.name);
  const withPayload = given.flag('payload');
  const job = await session.read((db) => showJob(db, session.schema, queues, id, withPayload));
  if (!job) {
    throw new Failure(
      `No job ${id} is in ${queues.map((name) => `"${name}"`).join(', ')}, nor in the archive. ` +
        `holdfast explain ${id} says what that may mean.`,
    );
  }
  const { payload, result, ...rest } = job;
  if (out.json) {
    await out.value(withPayload ? { ...rest, payload, result } : rest);
    return;
  }
  for (const [name, value] of Object.entries(lines(job))) {
    if (value === null) continue;
    await out.line(`${out.paint(name.padEnd(16), 'dim')} ${plain(String(value))}`);
  }
  if (withPayload) {
    await out.line('\npayload');
    await out.line(JSON.stringify(payload, null, 2));
    if (result !== null) {
      await out.line('\nresult');
      await out.line(JSON.stringify(result, null, 2));
    }
  }
  await history(out, Array.isArray(job.history) ? job.history : []);
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
