/**
 * BullMQ 5 and 6 on Redis, read through the BullMQ of the user's project: it knows its keys, and removes a job with all
 * that belongs to it. No transaction spans Redis and Postgres, so a job is removed there when it is here, and workers
 * that could take it in between are refused.
 */
import { Failure } from '../../../failures.js';
import { loadPackage } from '../../setup/load-package.js';
import { type BullJob, type Held, type Scheduler, toJob, toSchedule } from './bullmq-job.js';
import { type Fields, lossesOf } from './fields.js';
import type { Loss, Source, SourceSchedule, Staying, Wanted, Work } from './source.js';
import { unknownNames } from './unknown-names.js';

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
  getMeta?(): Promise<object>;
  getJobSchedulers(start: number, end: number, asc: boolean): Promise<Scheduler[]>;
  removeJobScheduler(key: string): Promise<unknown>;
  waitUntilReady(): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  close(): Promise<void>;
}

/** `getMeta()` of a queue. */
export const META: Fields = {
  version: { moot: 'which BullMQ wrote it' },
  paused: { moot: 'said by itself' },
  maxLenEvents: { moot: 'of a stream of events in Redis' },
  concurrency: { lost: 'the global concurrency is not moved: set a `limit`' },
  max: { lost: 'the global rate is not moved: set a `limit`' },
  duration: { lost: 'the global rate is not moved: set a `limit`' },
};

interface BullMQ {
  readonly Queue: new (name: string, options: object) => BullQueue;
}

const WAITING = ['waiting', 'paused', 'prioritized', 'delayed'];
const MAX_SCHEDULERS = 100_000;
const CONNECT_MS = 5_000;

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

/** What a queue has for all its jobs. */
async function lossesIn(queues: ReadonlyMap<string, BullQueue>): Promise<Loss[]> {
  const losses: Loss[] = [];
  for (const queue of queues.values())
    for (const text of lossesOf(META, { ...(await queue.getMeta?.()) }))
      losses.push({ text, noun: 'queue' });
  return losses;
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
    ...{ apart: true, warnings, close, losses: () => lossesIn(queues) },
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
    const children = await Promise.all(found.map(childrenOf));
    const jobs = found.map((job, n) =>
      toJob(
        { queue: name, state, job, children: children[n] as number },
        wanted.maxPayloadBytes,
        held,
      ),
    );
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

/** How many of its children have ended: their results are in Redis only. */
async function childrenOf(job: BullJob): Promise<number> {
  return (await job.getDependenciesCount?.({ processed: true }))?.processed ?? 0;
}
