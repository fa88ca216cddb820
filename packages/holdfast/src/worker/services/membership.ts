/**
 * Membership: this worker's view of the fleet, and what follows from it: its shares of the ring, whether it comes first,
 * and whose jobs are to be recovered. While two views differ, two workers may read one bucket, and the rows decide.
 */
import { fleetView, type Member, type QueueSettings, queueSettings } from '../../fleet/registry.js';
import { ringOwners } from '../../fleet/ring.js';
import type { Ordering } from '../../job/order.js';
import { untilDone } from '../../postgres/connect/backoff.js';
import type { SharedDeps } from '../deps.js';
import type { QueueWorker } from '../queue-worker.js';
import type { Timer } from '../time.js';

interface MembershipDeps extends SharedDeps {
  readonly queueWorkers: () => readonly QueueWorker[];
  /** A view was read, also one that did not change. */
  readonly changed: () => void;
  /** Workers have died: recover what they held in these queues. */
  readonly recover: (queues: readonly string[]) => void;
}

export type Membership = ReturnType<typeof newMembership>;

export function newMembership(deps: MembershipDeps) {
  const { engine, schema, queues: served, workerId, time, recover } = deps;
  const halt = new AbortController();
  let epoch = 0;
  let members: readonly Member[] = [];
  /** All of the schema. */
  let queues: readonly QueueSettings[] = [];
  /** Those that are known to be dead. Null before the first view. */
  let dead: readonly string[] | null = null;
  let sharedFrom = '';
  let [started, reading, again] = [false, false, false];
  let timer: Timer | null = null;

  const handling = (queue: string): string[] =>
    members.filter(({ handles }) => handles[queue]).map(({ id }) => id);

  /** The queues for which this worker's id is the first of those that serve them. */
  const led = (): string[] => served.filter((queue) => handling(queue)[0] === workerId());

  /** Which buckets of a queue that is read by key this worker reads first. */
  function share({ queue, claims }: QueueWorker, ordering: Ordering): void {
    const owners = ordering === 'none' ? [] : ringOwners(handling(queue));
    const own = owners.flatMap((owner, bucket) => (owner === workerId() ? [bucket] : []));
    claims.assign(ordering, own);
    if (ordering !== 'none')
      deps.emit({ kind: 'ring', workerId: workerId(), queue, owned: own.length });
  }

  async function read(): Promise<void> {
    const names = { schema, queue: served[0] as string };
    const settings = await queueSettings(engine, names);
    const view = await fleetView(engine, names);
    if (halt.signal.aborted) return;
    epoch = view.epoch;
    queues = settings;
    members = view.members;
    const from = JSON.stringify([workerId(), members, settings]);
    for (const worker of deps.queueWorkers()) {
      const queue = settings.find(({ name }) => name === worker.queue);
      if (!queue) continue;
      worker.claims.limit(queue.limited);
      if (from !== sharedFrom) share(worker, queue.ordering);
    }
    sharedFrom = from;
    deps.changed();
    const known = dead;
    dead = view.dead;
    // Whoever declared them dead recovers; beside it one for each queue is enough. A start recovers by itself.
    const news = known && view.dead.some((id) => !known.includes(id));
    if (news && led().length > 0) recover(led());
  }

  /** Reads now, or once more after the read that is under way. */
  async function refresh(): Promise<void> {
    again = true;
    if (reading || !started) return;
    reading = true;
    const failed = (error: unknown) => {
      // A read that a stop overtook finds its pool closed: nobody needs its answer any more.
      if (!halt.signal.aborted) deps.reportError('reading the membership of the fleet', error);
    };
    while (again && !halt.signal.aborted) {
      again = false;
      await untilDone(halt.signal, read, failed);
    }
    reading = false;
    // Claims and the keeper notice a new epoch; this is for a change that they miss.
    timer?.cancel();
    if (halt.signal.aborted) return;
    const everyMs = Math.max(2, members.length) * deps.settings.heartbeatMs;
    timer = time.after(everyMs, () => void refresh());
  }

  return {
    refresh,
    get size() {
      return members.length;
    },
    get queues() {
      return queues;
    },
    /** Whether this worker's id is the first of the fleet. */
    get isFirst() {
      return members[0]?.id === workerId();
    },
    /** Whether it is the first for one of the queues that this worker serves. */
    get leads() {
      return led().length > 0;
    },
    /** How many live workers serve a queue. */
    servers: (queue: string): number => handling(queue).length,
    /** Resolves when the first view has been used. Earlier changes, and deaths, are in it. */
    start(): Promise<void> {
      started = true;
      return refresh();
    },
    /** A claim, or the keeper, met this epoch. */
    recordEpoch(met: number): void {
      if (met > epoch) void refresh();
    },
    recordDead(ids: readonly string[]): void {
      dead = [...(dead ?? []), ...ids];
      recover(served);
      void refresh();
    },
    stop(): void {
      halt.abort();
      timer?.cancel();
    },
  };
}
