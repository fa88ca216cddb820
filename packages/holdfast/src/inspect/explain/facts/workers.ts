/** The workers that can run a job, and whether each is free: by their claims, and by what they say of themselves. */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { type HeldType, heldTypes, type IsolatedJob, isolatedJobs } from '../../fleet/held.js';
import { keptIn, leakedIn, queueLoadOf } from '../../fleet/reports.js';
import {
  isSilent,
  type Load,
  loadOf,
  numberOf,
  takes,
  type WorkerRow,
} from '../../fleet/workers.js';
import type { ShownJob } from '../../job/show.js';
import { firstFew, many, span } from '../../reading/words.js';

export interface AbleWorker {
  readonly worker: WorkerRow;
  /** `alone`: it runs a suspect and takes nothing else. `unsure`: it does not say how many jobs it runs. */
  readonly state: 'free' | 'busy' | 'alone' | 'silent' | 'unsure';
  /** How many jobs of the queue run at once in it; null: it does not say. */
  readonly concurrency: number | null;
  readonly jobs: number;
  /** By type, the longest held first. */
  readonly types: readonly HeldType[];
  /** Handlers that run on with jobs that it has lost, by its last heartbeat; of all its queues, if it does not say of which. */
  readonly lost: number;
  readonly suspect: IsolatedJob | null;
  /** For so long all its handlers have been busy, and none has begun another job; null: it is not so, or it does not say. */
  readonly fullMs: number | null;
}

/** Those that live and handle the job's type and version on its queue. */
export const ableWorkers = (workers: readonly WorkerRow[], job: ShownJob): WorkerRow[] =>
  workers.filter((worker) => worker.status === 'alive' && takes(worker, job.queue, job));

/** `inRuns`: jobs of a key run one after the other. `queues`: all; a suspect of another queue occupies a worker here too. */
export async function readAble(
  db: Executor,
  names: Names,
  workers: readonly WorkerRow[],
  { inRuns, queues }: { readonly inRuns: boolean; readonly queues: readonly string[] },
): Promise<AbleWorker[]> {
  if (workers.length === 0) return [];
  const held = await heldTypes(
    db,
    names,
    workers.map(({ id }) => id),
  );
  const isolated: IsolatedJob[] = [];
  for (const queue of queues)
    isolated.push(...(await isolatedJobs(db, { schema: names.schema, queue })));
  return workers.map((worker) => {
    const own = held.filter((one) => one.worker === worker.id);
    const total = own.find((one) => one.type === null);
    const load = queueLoadOf(worker, names.queue);
    const concurrency = load?.handlers ?? numberOf(worker, 'concurrency');
    const suspect = isolated.find((one) => one.worker === worker.id) ?? null;
    // Jobs of one key that came together run one after the other, in one handler.
    const running = (inRuns ? total?.keys : total?.jobs) ?? 0;
    const lost = lostIn(load ?? loadOf(worker));
    return {
      worker,
      state: stateOf(worker, { concurrency, running, lost, suspect, says: load !== null }),
      concurrency,
      jobs: total?.jobs ?? 0,
      types: own.filter((one) => one.type !== null),
      lost,
      suspect,
      fullMs: load?.fullMs ?? null,
    };
  });
}

/** More handlers run than it holds jobs: the queue has taken the others from it. */
function lostIn(load: Load | null): number {
  const { running, held } = load ?? { running: 0, held: 0 };
  return Math.max(0, running - held);
}

interface Use {
  readonly concurrency: number | null;
  readonly running: number;
  readonly lost: number;
  readonly suspect: IsolatedJob | null;
  /** It says which of its queues has lost them. */
  readonly says: boolean;
}

function stateOf(worker: WorkerRow, has: Use): AbleWorker['state'] {
  if (isSilent(worker)) return 'silent';
  if (has.suspect) return 'alone';
  if (has.running + has.lost === 0) return 'free';
  if (has.concurrency === null) return 'unsure';
  if (has.running >= has.concurrency) return 'busy';
  if (has.running + has.lost < has.concurrency) return 'free';
  // The lost ones may be of another queue, which has handlers of its own.
  return has.says || Object.keys(worker.handles as object).length === 1 ? 'busy' : 'unsure';
}

/** `, and 3 handlers of send_receipt run on in it although their jobs have left`, or nothing. */
export function describeTrouble(worker: WorkerRow): string {
  const leaked = leakedIn(worker).map(
    ({ handlers, type }) => `${many(handlers, 'handler')} of ${type}`,
  );
  const kept = keptIn(worker).map(
    ({ jobs, queue, why }) => `how ${many(jobs, 'job')} of "${queue}" ended (${why})`,
  );
  const runOn =
    leaked.length > 0
      ? `, and ${firstFew(leaked, 3, 'type')} run on in it although their jobs have left`
      : '';
  return kept.length > 0
    ? `${runOn}, and the database refuses to write ${firstFew(kept, 3, 'queue')}`
    : runOn;
}

const since = (nowMs: number, time: string | null) =>
  span(time === null ? 0 : nowMs - Date.parse(time));

/** `worker w1 holds 12 jobs for 10 handlers: 7 send_receipt (the longest for 12 min: job …), 5 refund (…)`. */
export function describeAble(able: AbleWorker, nowMs: number): string {
  const { worker, suspect, concurrency, jobs, types } = able;
  if (able.state === 'silent')
    return `worker ${worker.id} has been silent for ${span(worker.silentMs)}`;
  if (suspect) {
    return (
      `worker ${worker.id} runs the suspect ${suspect.id} (${suspect.type}) alone, ` +
      `for ${since(nowMs, suspect.claimedAt)}, and takes nothing else meanwhile, for half a minute at most`
    );
  }
  const lost =
    able.lost === 0
      ? ''
      : `, and ${many(able.lost, 'handler')} of it run on with jobs that it has lost`;
  const zombies = `${lost}${describeTrouble(worker)}`;
  if (jobs === 0) return `worker ${worker.id} holds no job of this queue${zombies}`;
  const room = concurrency === null ? '' : ` for ${many(concurrency, 'handler')}`;
  const what = types.map(
    (one) =>
      `${one.jobs.toLocaleString('en')} ${one.type} (the longest for ` +
      `${since(nowMs, one.oldestClaim)}: job ${one.longest})`,
  );
  return `worker ${worker.id} holds ${many(jobs, 'job')}${room}: ${firstFew(what, 3, 'type')}${zombies}`;
}
