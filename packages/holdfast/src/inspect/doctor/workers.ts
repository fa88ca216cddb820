/** Who is there to do the work: nobody, the silent and the frozen, those that vanish again and again, mixed versions. */
import { isSilent, numberOf, saysOf, type WorkerRow } from '../fleet/workers.js';
import type { Overview, WorkerOverview } from '../queue/overview.js';
import { firstFew, many, span } from '../reading/words.js';
import { type Finding, type Limits, lines, note, ok, problem } from './doctor.js';

const NAMED = 5;

/** `counted`: the jobs of all queues could be counted. */
export function judgeWorkers(
  { queues, workers }: Overview,
  limits: Limits,
  counted = true,
): Finding[] {
  const alive = workers.filter(({ worker }) => worker.status === 'alive');
  const waits = queues.reduce((sum, { counts }) => sum + counts.pending, 0);
  const about = queues.some(({ counts }) => counts.approximate) ? 'about ' : '';
  const check = 'workers';
  if (alive.length === 0) {
    const start = 'holdfast work';
    if (counted && waits === 0) {
      const why = 'Nothing waits either; what is enqueued from now on will.';
      return [note(check, 'No worker is alive.', why, start)];
    }
    const text = counted
      ? `No worker is alive and ${about}${many(waits, 'job waits', 'jobs wait')}.`
      : 'No worker is alive; how many jobs wait could not be counted.';
    return [problem(check, text, 'Nothing runs.', start)];
  }
  const silent = alive.filter(({ worker }) => isSilent(worker));
  const versions = ['holdfast', 'version'].flatMap((fact) => mixed(alive, fact));
  const late = alive.filter(({ worker }) => !isSilent(worker) && isLate(worker, limits));
  if (silent.length + late.length === 0) return [ok(check, `${alive.length} alive`), ...versions];
  if (silent.length === 0) return [frozen(late.map(({ worker }) => worker)), ...versions];
  const who = silent.map(({ worker }) => `${worker.id} (${span(worker.silentMs)})`).join(', ');
  if (silent.length === alive.length) {
    // Nobody is left who could declare them dead.
    return [
      problem(
        check,
        `No worker sends heartbeats: ${who} registered as alive, but not seen for so long. ${many(waits, 'job')} wait.`,
        'Nothing runs. What they hold comes back when another worker declares them dead, and there is none.',
        'holdfast work',
      ),
    ];
  }
  return [
    problem(
      check,
      `${who} registered as alive, but not seen for so long.`,
      'They are frozen, cut off or gone, and nobody has declared them dead: what they hold waits for its lease.',
      'Start another worker, whose maintenance declares them dead; then look after their hosts.',
    ),
    ...versions,
  ];
}

/** Two heartbeats are missing: sooner than anybody declares it dead. */
const isLate = (worker: WorkerRow, limits: Limits) =>
  worker.silentMs > Math.max(limits.lateMs, 2.25 * (numberOf(worker, 'heartbeatMs') ?? 10_000));

function frozen(late: readonly WorkerRow[]): Finding {
  const each = late.map((worker) => {
    const missed = Math.floor(worker.silentMs / (numberOf(worker, 'heartbeatMs') ?? 10_000));
    return `${worker.id} has missed ${many(missed, 'heartbeat')} (last seen ${span(worker.silentMs)} ago${placeOf(worker)})`;
  });
  return problem(
    'workers',
    `${firstFew(each, NAMED, 'worker')}.`,
    'It is frozen, cut off or gone. What it holds waits until it is declared dead, when its time to live is over.',
    lines(
      'On its host, see whether the process runs, and whether it reaches the database. If it is frozen, end it; others take its jobs, and its supervisor starts another:',
      ...late.slice(0, NAMED).flatMap((worker) => kill(worker)),
    ),
  );
}

const placeOf = (worker: WorkerRow) => {
  const [host, pid] = [saysOf(worker, 'host'), saysOf(worker, 'pid')];
  return host === null ? '' : `, host ${host}${pid === null ? '' : `, process ${pid}`}`;
};

function kill(worker: WorkerRow): string[] {
  const pid = saysOf(worker, 'pid');
  return pid !== null && /^\d+$/.test(pid) ? [`kill -KILL ${pid}`] : [];
}

/** A job that was in processes when they ended. */
export interface Culprit {
  readonly queue: string;
  readonly id: string;
  readonly type: string;
  readonly crashes: number;
}

/** Those that vanished within the last minutes, and where it happens again and again. `culprits`: jobs that may be why. */
export function judgeVanished(
  all: readonly WorkerRow[],
  culprits: readonly Culprit[],
  limits: Limits,
): Finding {
  const check = 'vanished workers';
  const gone = all.filter(
    ({ status, leftAt, silentMs }) =>
      status === 'dead' && leftAt === null && silentMs <= limits.vanishedMs,
  );
  if (gone.length === 0) return ok(check, `none in the last ${span(limits.vanishedMs)}`);
  const hosts = new Map<string, WorkerRow[]>();
  for (const worker of gone) {
    const host = saysOf(worker, 'host') ?? 'a host that is not known';
    hosts.set(host, [...(hosts.get(host) ?? []), worker]);
  }
  const loops = [...hosts].filter(([, dead]) => inTurn(dead) >= limits.vanished);
  const named = culprits.map(
    ({ id, type, queue, crashes }) => `job ${id} (${type} in "${queue}", ${crashes} times)`,
  );
  const held = named.length === 0 ? '' : ` In their processes was ${firstFew(named, 3, 'job')}.`;
  if (loops.length === 0) {
    const each = gone.map(
      (worker) => `${worker.id} (${span(worker.silentMs)} ago${placeOf(worker)})`,
    );
    return note(
      check,
      `${many(gone.length, 'worker')} vanished in the last ${span(limits.vanishedMs)}: ${firstFew(each, NAMED, 'worker')}.${held}`,
      'It was killed, ran out of memory or lost its host. Its jobs went to others, and no attempt was spent.',
      "See the log of its supervisor: an exit code of 137, or a kernel's line about memory. A deploy should send SIGTERM and wait.",
    );
  }
  const each = loops.map(
    ([host, dead]) =>
      `${many(dead.length, 'worker')} of ${host} vanished in the last ${span(limits.vanishedMs)}, the last one ${span(Math.min(...dead.map(({ silentMs }) => silentMs)))} ago`,
  );
  const [worst] = culprits;
  return problem(
    check,
    `${firstFew(each, NAMED, 'host')}: their process starts and ends again and again.${held}`,
    'Each end costs the jobs that were in it a new start. A job that ends its process runs alone in the end, and becomes a dead letter.',
    lines(
      'The log of the process, and of its supervisor, say why it ends: memory (exit code 137), an error that nobody handles, a native crash.',
      ...(worst ? [`If it is this job, take it out:`, `holdfast jobs cancel ${worst.id}`] : []),
    ),
  );
}

/** How many came one after the other: those that a deploy kills all at once are no loop. */
function inTurn(dead: readonly WorkerRow[]): number {
  let [count, until] = [0, ''];
  for (const worker of [...dead].sort((a, b) => (a.startedAt < b.startedAt ? -1 : 1))) {
    if (worker.startedAt < until) continue;
    [count, until] = [count + 1, worker.lastSeenAt];
  }
  return count;
}

function mixed(alive: readonly WorkerOverview[], fact: string): Finding[] {
  const byVersion = new Map<string, number>();
  for (const { worker } of alive) {
    const version = saysOf(worker, fact);
    if (version !== null) byVersion.set(version, (byVersion.get(version) ?? 0) + 1);
  }
  if (byVersion.size < 2) return [];
  const what = fact === 'holdfast' ? 'holdfast' : 'the application';
  const list = [...byVersion].map(([version, count]) => `${version} (${count})`).join(', ');
  return [
    note(
      'mixed versions',
      `Live workers run different versions of ${what}: ${list}.`,
      'During a deploy this is as it should be. If it stays, some jobs run old code.',
      'holdfast workers ls shows which; drain the old ones: holdfast workers drain ID',
    ),
  ];
}
