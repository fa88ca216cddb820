/** The work itself: what waits too long, what nobody took back, dead letters, and maintenance. */
import { isLive } from '../fleet/workers.js';
import { MOST_POISON } from '../job/failures.js';
import type { Overview, QueueOverview, WorkerOverview } from '../queue/overview.js';
import type { PauseAct } from '../queue/paused-by.js';
import { many, shellWord, span } from '../reading/words.js';
import { type Finding, type Limits, lines, note, ok, problem } from './doctor.js';
import { judgePaused } from './pauses.js';

const since = (at: string, time: string | null) =>
  time === null ? 0 : Date.parse(at) - Date.parse(time);

/** What is estimated is called so, as `status` does with its `~`. */
const pending = ({ pending, approximate }: QueueOverview['counts']) =>
  `${approximate ? 'about ' : ''}${many(pending, 'job')}`;

/** `poison`: by queue, the dead letters that ended their workers' processes. `acts`: of the audit, the latest first. */
export function judgeQueues(
  { queues, workers }: Overview,
  limits: Limits,
  poison: ReadonlyMap<string, readonly string[]> = new Map(),
  acts: readonly PauseAct[] = [],
): Finding[] {
  const alive = workers.filter(({ worker }) => isLive(worker));
  return queues.flatMap((one) => [
    ...waiting(one, limits, alive.length, acts),
    ...full(one),
    expired(one),
    deadLetters(one, limits, poison.get(one.queue.name) ?? []),
    ...maintenance(one, limits, alive),
  ]);
}

function waiting(
  { queue, counts }: QueueOverview,
  limits: Limits,
  alive: number,
  acts: readonly PauseAct[],
): Finding[] {
  const { name } = queue;
  const oldestMs = since(counts.size.at, counts.oldestDue);
  const paused = judgePaused({ queue, counts }, acts);
  if (queue.paused) return paused;
  if (oldestMs <= limits.oldestMs)
    return [...paused, ok('oldest pending', `${name}: ${span(oldestMs)}`)];
  return [
    ...paused,
    problem(
      'oldest pending',
      `The oldest due job of "${name}" has waited for ${span(oldestMs)}; ${pending(counts)} wait, ${many(alive, 'worker')} alive.`,
      'This is the delay that users see.',
      `holdfast jobs ls --queue ${name} --status pending --oldest, then holdfast explain one whose DUE is past; start more workers if they are all busy.`,
    ),
  ];
}

function full({ queue, counts }: QueueOverview): Finding[] {
  const { name, maxPending } = queue;
  if (maxPending === null || counts.pending < maxPending) return [];
  return [
    problem(
      'full',
      `${counts.approximate ? 'About ' : ''}${many(counts.pending, 'job')} of "${name}" wait, and ${maxPending.toLocaleString('en')} may.`,
      'Enqueues are refused, or wait, until there is room.',
      `Add workers, or raise the limit: holdfast queues set ${name} --max-pending N`,
    ),
  ];
}

function expired({ queue, counts }: QueueOverview): Finding {
  if (counts.expired === 0) return ok('expired leases', `${queue.name}: none`);
  return problem(
    'expired leases',
    `${many(counts.expired, 'job')} of "${queue.name}" are beyond their lease and nobody has taken them back.`,
    'Their worker is gone. A round of maintenance returns them within seconds of a crash; if it stays, no worker is running, or maintenance fails.',
    `holdfast jobs ls --queue ${queue.name} --status processing, then holdfast explain one of them.`,
  );
}

const NAMED_POISON = 10;

function deadLetters(
  { queue, counts }: QueueOverview,
  limits: Limits,
  poison: readonly string[],
): Finding {
  if (counts.deadLetter === 0) return ok('dead letters', `${queue.name}: none`);
  const least = poison.length >= MOST_POISON ? 'at least ' : '';
  const killed =
    poison.length === 0
      ? ''
      : ` Of these ${least}${many(poison.length, 'job')} ended the process of ${poison.length === 1 ? 'its worker' : 'their workers'}, and may do so again.`;
  const first =
    poison.length === 0
      ? []
      : [
          'First take out those that end their process, or mend their handler:',
          `holdfast jobs discard ${poison.slice(0, NAMED_POISON).join(' ')}`,
          ...(poison.length > NAMED_POISON
            ? ['and the others: holdfast dead-letters ls --error vanished']
            : []),
        ];
  return (counts.deadLetter >= limits.deadLetters ? problem : note)(
    'dead letters',
    `${counts.deadLetterApproximate ? 'About ' : ''}${many(counts.deadLetter, 'dead letter')} in "${queue.name}".${killed}`,
    'They failed in all their attempts, or gave up, and run again only when somebody says so.',
    lines(
      ...first,
      `holdfast dead-letters ls --queue ${queue.name}, mend the cause, then holdfast dead-letters retry --queue ${queue.name}`,
    ),
  );
}

/** Those who serve a queue maintain it. */
function maintenance(
  { queue, counts }: QueueOverview,
  limits: Limits,
  alive: readonly WorkerOverview[],
): Finding[] {
  if (alive.length === 0 || queue.maintainedAt === null) return [];
  const { name } = queue;
  const ms = since(counts.size.at, queue.maintainedAt);
  if (ms <= limits.maintenanceMs) return [];
  if (!alive.some(({ worker }) => name in ((worker.handles ?? {}) as object)))
    return [
      note(
        'unserved',
        `No live worker serves the queue "${name}", so it has had no maintenance for ${span(ms)}; ${pending(counts)} wait in it.`,
        'Its jobs do not run, what vanished workers hold of it is not returned, and its archive is not pruned.',
        `Start a worker that handles its types${name === 'inbox' ? '.' : `, or drop it: holdfast queues drop ${name}`}`,
      ),
    ];
  return [
    problem(
      'maintenance',
      `The last round of maintenance of the queue "${name}" began ${span(ms)} ago, although workers that serve it are alive.`,
      'Vanished workers are not declared dead, their jobs not returned, and the archive grows.',
      'Look for warnings in the logs of the workers; one of them does it for all.',
    ),
  ];
}

/** `overdueMs`: of the schedule of the queue that has been due for longest. */
export function judgeSchedules(queue: string, overdueMs: number, limits: Limits): Finding {
  const check = 'schedules';
  if (overdueMs <= limits.scheduleMs)
    return ok(check, `${queue}: none is overdue by more than ${span(limits.scheduleMs)}`);
  return problem(
    check,
    `A schedule of the queue "${queue}" has been due for ${span(overdueMs)}, and no worker writes its job.`,
    'Workers write the ticks of the queues that they serve. Those that are late are caught up as the schedule says, or missed.',
    `holdfast schedules ls --queue ${queue} shows which. Start a worker that serves the queue, or look for warnings in the logs of those that do.`,
  );
}

/** What a rate of the queue makes wait. */
export interface PacedLine {
  readonly queue: string;
  /** Null: all types of the queue. */
  readonly type: string | null;
  readonly rate: { readonly limit: number; readonly perMs: number };
  readonly waiting: number;
  readonly emptyInMs: number;
  readonly grows: boolean;
  readonly arrived: number;
}

/** A rate below the demand. A line that ends soon is what a rate is for. */
export function judgeRates(queue: string, all: readonly PacedLine[], limits: Limits): Finding[] {
  const check = 'rates';
  if (all.length === 0) return [];
  const long = all.filter(({ grows, emptyInMs }) => {
    return emptyInMs > (grows ? limits.oldestMs : limits.emptyMs);
  });
  if (long.length === 0) return [ok(check, `${queue}: what waits for a rate is done soon`)];
  return long.map(({ type, rate, waiting, emptyInMs, grows, arrived }) => {
    const whose = type === null ? `jobs of "${queue}"` : `"${type}" jobs of "${queue}"`;
    const words = `${many(waiting, 'due job')} ${waiting === 1 ? 'waits' : 'wait'} for the rate of ${whose}, ${rate.limit.toLocaleString('en')} in ${span(rate.perMs)}: they take ${span(emptyInMs)}`;
    const command = `holdfast limits set${type === null ? '' : ` ${shellWord(type)}`}${queue === 'inbox' ? '' : ` --queue ${queue}`}`;
    const needed = Math.ceil(Math.max(arrived * 1.25, (rate.limit * 60_000 * 2) / rate.perMs, 1));
    return (grows ? problem : note)(
      check,
      grows
        ? `${words}, and in the last minute ${arrived.toLocaleString('en')} more became due: the line never ends.`
        : `${words}, if nothing more comes.`,
      'The rate is below the demand.',
      lines(
        'If the service behind it allows more, raise the rate; else slow the producers down:',
        `${command} --rate ${needed}/1m`,
      ),
    );
  });
}
