/**
 * BullMQ 5 and 6 on Redis, read through the BullMQ of the user's project: it knows its keys, and removes a job with all
 * that belongs to it. No transaction spans Redis and Postgres, so a job is removed there when it is here, and workers
 * that could take it in between are refused.
 */
import { Failure } from '../../failures.js';
import { loadPackage } from '../setup/load-package.js';
import type { Source, SourceJob, SourceSchedule, Staying, Wanted, Work } from './source.js';
import { unknownNames } from './unknown-names.js';

/** What is used of a job and a queue of BullMQ. */
interface BullJob {
  readonly id?: string;
  readonly name: string;
  readonly data: unknown;
  readonly timestamp: number;
  readonly delay: number;
  readonly priority: number;
  readonly attemptsMade: number;
  readonly failedReason?: string;
  readonly stacktrace?: readonly string[] | null;
  readonly parentKey?: string;
  readonly repeatJobKey?: string;
  readonly deduplicationId?: string;
  readonly opts: {
    readonly attempts?: number;
    readonly backoff?: unknown;
    readonly deduplication?: { readonly id?: string };
    readonly telemetry?: unknown;
  };
  remove(): Promise<void>;
}

interface Scheduler {
  readonly key: string;
  readonly name: string;
  readonly id?: string | null;
  readonly pattern?: string | null;
  readonly every?: number | string | null;
  readonly tz?: string | null;
  readonly limit?: number;
  readonly endDate?: number | null;
  readonly template?: {
    readonly data?: unknown;
    readonly opts?: { readonly priority?: number; readonly attempts?: number };
  };
}

interface RedisClient {
  scan(cursor: string, ...rest: string[]): Promise<readonly [string, readonly string[]]>;
}

interface BullQueue {
  /** Of version 5; from 6 on it is the backend's. */
  readonly client?: Promise<RedisClient>;
  getBackend?(): { readonly connection?: { readonly client: Promise<RedisClient> } };
  getJobs(types: readonly string[], start: number, end: number, asc: boolean): Promise<BullJob[]>;
  getJobCounts(...types: string[]): Promise<Record<string, number>>;
  getWorkersCount(): Promise<number>;
  isPaused(): Promise<boolean>;
  getJobSchedulers(start: number, end: number, asc: boolean): Promise<Scheduler[]>;
  removeJobScheduler(key: string): Promise<unknown>;
  waitUntilReady(): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  close(): Promise<void>;
}

interface BullMQ {
  readonly Queue: new (name: string, options: object) => BullQueue;
}

const WAITING = ['waiting', 'paused', 'prioritized', 'delayed'];
const MAX_SCHEDULERS = 100_000;
const CONNECT_MS = 5_000;

/** 0 is none and comes first; 1 to 2,097,152 come after it. */
const priorityOf = (priority: number | undefined) => (priority ? 3 : 2);

export async function bullmq(url: string, prefix: string, wanted: Wanted): Promise<Source> {
  const library = await loadPackage<BullMQ & { readonly default?: BullMQ }>('bullmq');
  const Queue = library?.Queue ?? library?.default?.Queue;
  if (!Queue)
    throw new Failure(
      'BullMQ is read through its own package, and it is not installed in this folder; nothing was moved. Run this where your workers of BullMQ live, or: npm install bullmq ioredis',
    );
  let refused: Error | null = null;
  const open = async (name: string): Promise<BullQueue> => {
    const connection = {
      ...{ url, connectTimeout: CONNECT_MS, maxRetriesPerRequest: 1, enableOfflineQueue: true },
      retryStrategy: () => null,
    };
    const queue = new Queue(name, { connection, prefix, skipMetasUpdate: true });
    queue.on('error', (error) => {
      refused ??= error;
    });
    await queue.waitUntilReady();
    return queue;
  };
  const queues = new Map<string, BullQueue>();
  const close = async () => {
    for (const queue of queues.values()) await queue.close().catch(() => undefined);
  };
  try {
    const { only } = wanted;
    const all = await queueNames(open, prefix).catch((error) => {
      if (only.length === 0) throw error;
      return null;
    });
    const names = only.length > 0 ? only : (all ?? []);
    if (names.length === 0)
      throw new Failure(
        `There is no queue of BullMQ with the prefix "${prefix}"; nothing was moved. Check --from, or name the prefix with --from-schema.`,
      );
    for (const name of names) queues.set(name, await open(name));
    if (!wanted.dry) await refuseWorkers(queues);
    const warnings = all ? unknownNames(only, all) : [];
    for (const [name, queue] of queues)
      if (await queue.isPaused())
        warnings.push(`Queue "${name}" is paused there; here its jobs run.`);
    return sourceOf(queues, prefix, wanted, warnings, close);
  } catch (error) {
    await close();
    if (error instanceof Failure) throw error;
    const why = String((refused ?? (error as Error)).message).split('\n', 1)[0];
    throw new Failure(`Redis cannot be read: ${why}. Nothing was moved. Check --from redis://…`, {
      cause: error,
    });
  }
}

/** Every queue keeps a `meta` key. */
async function queueNames(open: (name: string) => Promise<BullQueue>, prefix: string) {
  const probe = await open('holdfast-import');
  const names = new Set<string>();
  try {
    const client = await (probe.client ?? probe.getBackend?.().connection?.client);
    if (!client)
      throw new Failure(
        'This BullMQ does not say which queues there are; nothing was moved. Name them with --only.',
      );
    let cursor = '0';
    do {
      const [next, keys] = await client.scan(cursor, 'MATCH', `${prefix}:*:meta`, 'COUNT', '1000');
      for (const key of keys) names.add(key.slice(prefix.length + 1, -':meta'.length));
      cursor = String(next);
    } while (cursor !== '0');
  } finally {
    await probe.close();
  }
  return [...names].sort();
}

async function refuseWorkers(queues: ReadonlyMap<string, BullQueue>): Promise<void> {
  for (const [name, queue] of queues) {
    if ((await queue.isPaused()) || (await queue.getWorkersCount()) === 0) continue;
    throw new Failure(
      `Workers of BullMQ are connected to the queue "${name}": a job could run there and here. Nothing was moved: stop them, or pause the queue (queue.pause()).`,
    );
  }
}

/** Why a job that a scheduler made stays; `held`: the schedulers that are still there. */
function staysOf(queue: string, state: string, job: BullJob, held: Held): string | null {
  if (job.parentKey) return 'is a child of a flow';
  if (!job.repeatJobKey) return null;
  if (held.has(idOf(queue, job.repeatJobKey))) return 'belongs to a scheduler that stays';
  return state === 'delayed' ? 'goes with its scheduler' : null;
}

type Held = ReadonlySet<string>;

const idOf = (queue: string, key: string) => JSON.stringify([queue, key]);

function toJob(
  queue: string,
  state: string,
  job: BullJob,
  maxBytes: number,
  held: Held,
): SourceJob {
  const text = JSON.stringify(job.data ?? {});
  const dedup = job.opts.deduplication?.id ?? job.deduplicationId;
  const custom = job.id !== undefined && !/^\d+$/.test(job.id) && !job.repeatJobKey;
  const failed = state === 'failed';
  return {
    id: `${queue}:${job.id}`,
    ...{ from: `${queue}/${job.name}`, names: [`${queue}/${job.name}`, job.name], state },
    payload: Buffer.byteLength(text) <= maxBytes ? text : null,
    ...{ partitionKey: null, group: null, priority: priorityOf(job.priority) },
    runAt: new Date(job.timestamp + job.delay).toISOString(),
    attempts: job.attemptsMade,
    maxAttempts: job.opts.attempts ?? 1,
    ...{ error: job.stacktrace?.[0] ?? job.failedReason ?? null, dead: failed },
    once: dedup
      ? { key: dedup, as: 'running' }
      : custom
        ? { key: job.id as string, as: 'idempotency' }
        : null,
    headers: null,
    stays: staysOf(queue, state, job, held),
    warnings: job.opts.backoff ? ['the backoff is not moved: set `retry` in the definition'] : [],
  };
}

function toSchedule(queue: string, one: Scheduler): SourceSchedule {
  const { pattern, every, tz, template } = one;
  const stays = one.limit ? 'has a limit of runs' : one.endDate ? 'has an end date' : null;
  return {
    ...{ id: idOf(queue, one.key), from: `${queue}/${one.name}` },
    names: [`${queue}/${one.name}`, one.name],
    suffix: one.key === one.name ? '' : one.key,
    ...{ cron: pattern ?? null, everyMs: pattern ? null : Number(every), timezone: tz ?? null },
    payload:
      typeof template?.data === 'string' ? JSON.parse(template.data) : (template?.data ?? {}),
    ...{ partitionKey: null, priority: priorityOf(template?.opts?.priority) },
    ...{ maxAttempts: template?.opts?.attempts ?? 1, catchUp: 'none', stays },
    warnings: pattern ? [] : ['the interval begins with 1970, and not with the first run'],
  };
}

function sourceOf(
  queues: ReadonlyMap<string, BullQueue>,
  prefix: string,
  wanted: Wanted,
  warnings: readonly string[],
  close: () => Promise<void>,
): Source {
  const held = new Set<string>();
  const states = [...WAITING, ...(wanted.failed ? ['failed'] : [])];
  const left: Record<string, string> = {
    active: 'runs there',
    'waiting-children': 'waits for the children of a flow',
    ...(!wanted.failed && { failed: '--failed moves it as a dead letter' }),
  };
  return {
    title: `BullMQ in Redis, ${[...queues.keys()].length} queue(s) with the prefix "${prefix}"`,
    needs: '',
    ...{ apart: true, warnings, close },
    async staying() {
      const all: Staying[] = [];
      for (const [from, queue] of queues) {
        const counts = await queue.getJobCounts(...Object.keys(left));
        for (const [state, why] of Object.entries(left))
          if (counts[state]) all.push({ from, state, jobs: counts[state], why });
      }
      return all;
    },
    async schedules() {
      const all: SourceSchedule[] = [];
      for (const [name, queue] of queues)
        for (const one of await queue.getJobSchedulers(0, MAX_SCHEDULERS - 1, true)) {
          const schedule = toSchedule(name, one);
          // A dry run removes none: then those that could be moved are taken for moved.
          if (!wanted.dry || schedule.stays) held.add(schedule.id);
          all.push(schedule);
        }
      return all;
    },
    async removeSchedule(id) {
      const [name, key] = JSON.parse(id) as [string, string];
      await queues.get(name)?.removeJobScheduler(key);
      held.delete(id);
    },
    async each(work) {
      for (const [name, queue] of queues)
        for (const state of states)
          if (!(await eachOf({ name, queue, state, held }, wanted, work))) return;
    },
  };
}

/** Pages from the front; what stays is stepped over. */
async function eachOf(
  { name, queue, state, held }: { name: string; queue: BullQueue; state: string; held: Held },
  wanted: Wanted,
  work: Work,
): Promise<boolean> {
  for (let start = 0; ; ) {
    const page = await queue.getJobs([state], start, start + wanted.batch - 1, true);
    const found = page.filter((job) => job?.id !== undefined);
    if (found.length === 0) return true;
    const jobs = found.map((job) => toJob(name, state, job, wanted.maxPayloadBytes, held));
    let gone = 0;
    const remove = async (ids: readonly string[]) => {
      const wantedIds = new Set(ids);
      const outcomes = await Promise.allSettled(
        found.filter((_, n) => wantedIds.has(jobs[n]?.id as string)).map((job) => job.remove()),
      );
      gone = outcomes.filter(({ status }) => status === 'fulfilled').length;
      return outcomes.length - gone;
    };
    if (!(await work({ jobs, tx: null, remove }))()) return false;
    start += found.length - gone;
  }
}
