/** Who is there for what waits: types that nobody handles, and buckets that lack an owner, with the reason. */
import type { Unhandled } from '../fleet/unhandled.js';
import type { WorkerRow } from '../fleet/workers.js';
import type { QueueRow } from '../queue/queues.js';
import { span } from '../reading/words.js';
import { type Finding, type Limits, note, ok, problem } from './doctor.js';

const NAMED = 5;

/** Where no worker is alive at all, that is said elsewhere and is all that there is to say. */
export function judgeUnhandled(
  queue: QueueRow,
  found: readonly Unhandled[],
  limits: Limits,
): Finding {
  const check = 'unhandled';
  const [first] = found;
  if (!first)
    return ok(
      check,
      `${queue.name}: nothing that no live worker handles has been due for more than ${span(limits.unhandledMs)}`,
    );
  const named = found
    .slice(0, NAMED)
    .map(({ type, version, dueForMs }) => `${type} version ${version} (${span(dueForMs)})`);
  const more = found.length > NAMED ? ` and ${found.length - NAMED} more` : '';
  return problem(
    check,
    `Due jobs of "${queue.name}" wait and no live worker handles them: ${named.join(', ')}${more}.`,
    'Claims pass over them. They wait until a worker comes that knows the type, in that version or a newer one.',
    `Finish the deploy, or start workers that handle them; holdfast explain ${first.id} says who handles what.`,
  );
}

const handles = (worker: WorkerRow, queue: string) =>
  queue in ((worker.handles ?? {}) as Record<string, object>);

/** `owners`: by bucket, the worker that comes first for it; empty when nobody does. */
export function judgeOwners(
  queue: QueueRow,
  workers: readonly WorkerRow[],
  owners: readonly string[],
  limits: Limits,
): Finding {
  const check = 'bucket owners';
  const { name } = queue;
  if (owners.length === 0) return orphaned(name, workers);
  const silent = workers.filter(
    ({ id, silentMs }) => owners.includes(id) && silentMs > limits.silentMs,
  );
  if (silent.length === 0) {
    return ok(check, `${name}: ${owners.length} buckets, ${new Set(owners).size} worker(s)`);
  }
  const share = owners.filter((owner) => silent.some(({ id }) => id === owner)).length;
  const who = silent.map(({ id, silentMs }) => `${id} (silent for ${span(silentMs)})`).join(', ');
  return note(
    check,
    `${share} of ${owners.length} buckets of "${name}" belong first to workers that send no heartbeats: ${who}.`,
    'Others take their jobs when they have a free handler, later than the owner would. Maintenance declares the silent ones dead.',
    'Look at "workers" and "maintenance" for why they are still called alive.',
  );
}

function orphaned(name: string, workers: readonly WorkerRow[]): Finding {
  const alive = workers.filter(({ status }) => status === 'alive');
  const former = workers.find((worker) => worker.status !== 'alive' && handles(worker, name));
  const reason =
    alive.length === 0
      ? 'no worker is alive'
      : `the live workers (${alive.length}) have no handler for this queue`;
  const last = former
    ? `; ${former.id}, which had one, is ${former.status}, last seen ${span(former.silentMs)} ago`
    : '';
  return (alive.length === 0 ? note : problem)(
    'bucket owners',
    `No bucket of "${name}" has an owner: ${reason}${last}.`,
    'The queue is read by key, and nobody reads it: its jobs wait.',
    alive.length === 0
      ? 'holdfast work'
      : `Start a worker with a handler for a job of the queue "${name}"; holdfast workers ls shows what each handles.`,
  );
}
