/** Whether the fleet does the work: types without a worker, buckets without an owner, attempts that fail, leaks, refused outcomes. */
import { keptIn, leakedIn, queueLoadOf, type RecentAttempts } from '../fleet/reports.js';
import type { Unhandled } from '../fleet/unhandled.js';
import { numberOf, type WorkerRow } from '../fleet/workers.js';
import type { CommonError } from '../job/failures.js';
import type { QueueRow } from '../queue/queues.js';
import { firstFew, many, span } from '../reading/words.js';
import { type Finding, type Limits, lines, note, ok, problem } from './doctor.js';

const NAMED = 5;

/** Where no worker is alive at all, that is said elsewhere and is all that there is to say. */
export function judgeUnhandled(
  queue: QueueRow,
  all: readonly Unhandled[],
  limits: Limits,
): Finding[] {
  const found = all.filter(({ run }) => !run);
  return [unhandled(queue, found, limits), ...bodiless(queue, all)];
}

/** Runs keep the version that they began with: a newer body does not take them. */
function bodiless(queue: QueueRow, all: readonly Unhandled[]): Finding[] {
  const runs = all.filter(({ run }) => run);
  const [first] = runs;
  if (!first) return [];
  const named = runs.map(
    ({ type, version, dueForMs }) => `${type} version ${version} (${span(dueForMs)})`,
  );
  return [
    problem(
      'workflow versions',
      `Due runs of "${queue.name}" wait for a body that no live worker has: ${firstFew(named, NAMED, 'workflow')}.`,
      'A run keeps the version that it began with, so no other body takes it.',
      lines(
        `Start a worker with that body beside the newer one: worker.workflow(${first.type}, { ${first.version}: body, … })`,
        `holdfast explain ${first.id} says which bodies there are; holdfast workflows cancel ${first.id} gives it up.`,
      ),
    ),
  ];
}

function unhandled(queue: QueueRow, found: readonly Unhandled[], limits: Limits): Finding {
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

/** Of the attempts, so many may fail before it is worth a word. */
export function isFailing({ failed, completed }: RecentAttempts, limits: Limits): boolean {
  return failed >= limits.failedAttempts && failed > (failed + completed) * limits.failedShare;
}

export function judgeAttempts(
  queue: string,
  recent: RecentAttempts,
  most: CommonError | null,
  limits: Limits,
): Finding {
  const check = 'failing attempts';
  const { failed, completed, failedPerSecond } = recent;
  const of = many(failed + completed, 'attempt');
  if (!isFailing(recent, limits))
    return ok(check, `${queue}: ${failed.toLocaleString('en')} of ${of} in the last minute`);
  const why = most ? ` Most often, ${most.type}: ${most.error}` : '';
  const without = `${failed.toLocaleString('en')} of ${of} on "${queue}" failed in the last minute, ${failedPerSecond.toFixed(1)} a second.`;
  const finding = (failed > completed ? problem : note)(
    check,
    `${without}${why}`,
    'They are tried again, so nothing is lost yet; what has spent its attempts becomes a dead letter.',
    most
      ? `holdfast jobs show ${most.example} has the whole error. After a deploy, roll back; until then holdfast queues pause ${queue} --type ${most.type} stops the damage.`
      : `holdfast jobs ls --queue ${queue} --status pending shows the errors. After a deploy, roll back; until then holdfast queues pause ${queue} stops the damage.`,
  );
  return most ? { ...finding, quotes: { queue, type: most.type, without } } : finding;
}

export function judgeTrouble(workers: readonly WorkerRow[]): Finding[] {
  return [judgeLeaked(workers), judgeKept(workers)];
}

function judgeLeaked(workers: readonly WorkerRow[]): Finding {
  const check = 'leaked handlers';
  const found = workers.flatMap(leakedIn).sort((a, b) => b.handlers - a.handlers);
  if (found.length === 0) return ok(check, 'no handler runs on without its job');
  const each = found.map(
    ({ worker, queue, type, handlers }) =>
      `${many(handlers, 'handler')} of ${type} (${queue}) in worker ${worker}`,
  );
  const ids = [...new Set(found.map(({ worker }) => worker))];
  return (workers.some(isMostlyLeaked) ? problem : note)(
    check,
    `Handlers run on although their jobs have left: ${firstFew(each, NAMED, 'type')}.`,
    'Their jobs were cancelled, timed out or lost. Their places are free again, but what they hold (memory, connections) is not.',
    lines(
      'Let the handler listen to ctx.signal, or give what it waits for a time limit. Until then restart or drain the worker:',
      ...ids.slice(0, NAMED).map((id) => `holdfast workers drain ${id}`),
    ),
  );
}

/** As many run on as half of the handlers of their queue: what they hold may be all that there is. */
function isMostlyLeaked(worker: WorkerRow): boolean {
  const queues = new Map<string, number>();
  for (const { queue, handlers } of leakedIn(worker))
    queues.set(queue, (queues.get(queue) ?? 0) + handlers);
  return [...queues].some(([queue, leaked]) => {
    const handlers = queueLoadOf(worker, queue)?.handlers ?? numberOf(worker, 'concurrency');
    return handlers !== null && leaked * 2 >= handlers;
  });
}

function judgeKept(workers: readonly WorkerRow[]): Finding {
  const check = 'refused outcomes';
  const found = workers.flatMap(keptIn).sort((a, b) => b.jobs - a.jobs);
  if (found.length === 0) return ok(check, 'the database takes how jobs end');
  const each = found.map(
    ({ worker, queue, jobs, why }) =>
      `${many(jobs, 'job')} of "${queue}" in worker ${worker} (${why})`,
  );
  return problem(
    check,
    `Jobs have ended and the database refuses to write it: ${firstFew(each, NAMED, 'queue')}.`,
    'Their outcomes are kept and tried again while the leases hold. A worker with as many as handlers starts nothing more; if it stops now, these jobs run again.',
    'Remove the reason: 42501 is a missing right (run node_modules/holdfast/dist/roles.sql as the owner of the schema), 42P01 a missing table (see "schema drift"), 55P03 a lock (see "locks"). Do not restart the workers before.',
  );
}

/** `longest`: of those that wait for a signal without a time-out, longer than a month. */
export function judgeWaits(
  queue: QueueRow,
  longest: { readonly runs: number; readonly oldest: string; readonly example: string } | null,
  at: number,
): Finding[] {
  if (!longest) return [];
  return [
    note(
      'waiting runs',
      `${many(longest.runs, 'run')} of "${queue.name}" ${longest.runs === 1 ? 'has' : 'have'} waited for a signal for more than 30 days, the longest for ${span(at - Date.parse(longest.oldest))}, without a time-out.`,
      'That may be as it should be. They cost nothing but their rows, and nobody may remember to send the signal.',
      `holdfast explain ${longest.example} says what it waits for; holdfast workflows ls --queue ${queue.name} --state waiting lists them.`,
    ),
  ];
}
