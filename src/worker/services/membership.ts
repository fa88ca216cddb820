/**
 * Membership: this worker's view of the fleet, and what follows from it: its shares of the ring, whether it comes first,
 * and whose jobs are to be recovered. The view is a hint: every worker that reads the same list computes the same shares;
 * while two views differ, two workers may read one bucket, and the rows decide.
 */
import { fleetView, type Member, type QueueSettings, queueSettings } from '../../fleet/registry.js';
import { ringOwners } from '../../fleet/ring.js';
import type { Ordering } from '../../job/order.js';
import { untilDone } from '../../postgres/backoff.js';
import type { SharedDeps } from '../deps.js';
import type { QueueWorker } from '../queue-worker.js';
import type { Timer } from '../time.js';

export interface MembershipDeps extends SharedDeps {
  readonly queueWorkers: () => readonly QueueWorker[];
  /** A view was read, also one that did not change. */
  readonly changed: () => void;
  /** Workers have died: recover what they held in these queues. */
  readonly recover: (queues: readonly string[]) => void;
}

export class Membership {
  readonly #deps: MembershipDeps;
  readonly #halt = new AbortController();
  #epoch = 0;
  #members: readonly Member[] = [];
  /** All of the schema. */
  queues: readonly QueueSettings[] = [];
  /** Those that are known to be dead. Null before the first view. */
  #dead: readonly string[] | null = null;
  #sharedFrom = '';
  #started = false;
  #reading = false;
  #again = false;
  #timer: Timer | null = null;

  constructor(deps: MembershipDeps) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#members.length;
  }

  /** Whether this worker's id is the first of the fleet. */
  get isFirst(): boolean {
    return this.#members[0]?.id === this.#deps.workerId();
  }

  /** Whether it is the first for one of the queues that this worker serves. */
  get leads(): boolean {
    return this.#led.length > 0;
  }

  /** The queues for which this worker's id is the first of those that serve them. */
  get #led(): string[] {
    const { queues, workerId } = this.#deps;
    return queues.filter((queue) => this.#handling(queue)[0] === workerId());
  }

  /** How many live workers serve a queue. */
  servers(queue: string): number {
    return this.#handling(queue).length;
  }

  /** Resolves when the first view has been used. Earlier changes, and deaths, are in it. */
  start(): Promise<void> {
    this.#started = true;
    return this.refresh();
  }

  /** A claim, or the keeper, met this epoch. */
  recordEpoch(epoch: number): void {
    if (epoch > this.#epoch) void this.refresh();
  }

  recordDead(ids: readonly string[]): void {
    this.#dead = [...(this.#dead ?? []), ...ids];
    this.#deps.recover(this.#deps.queues);
    void this.refresh();
  }

  /** Reads now, or once more after the read that is under way. */
  async refresh(): Promise<void> {
    this.#again = true;
    if (this.#reading || !this.#started) return;
    this.#reading = true;
    while (this.#again && !this.#halt.signal.aborted) {
      this.#again = false;
      await untilDone(
        this.#halt.signal,
        () => this.#read(),
        (error) => {
          // A read that a stop overtook finds its pool closed: nobody needs its answer any more.
          if (this.#halt.signal.aborted) return;
          this.#deps.reportError('reading the membership of the fleet', error);
        },
      );
    }
    this.#reading = false;
    this.#plan();
  }

  stop(): void {
    this.#halt.abort();
    this.#timer?.cancel();
  }

  /** Claims and the keeper notice a new epoch; this is for a change that they miss. */
  #plan(): void {
    this.#timer?.cancel();
    if (this.#halt.signal.aborted) return;
    const everyMs = Math.max(2, this.size) * this.#deps.settings.heartbeatMs;
    this.#timer = this.#deps.time.after(everyMs, () => void this.refresh());
  }

  async #read(): Promise<void> {
    const { engine, schema, queues, workerId, queueWorkers, changed } = this.#deps;
    const names = { schema, queue: queues[0] as string };
    const settings = await queueSettings(engine, names);
    const view = await fleetView(engine, names);
    if (this.#halt.signal.aborted) return;
    this.#epoch = view.epoch;
    this.queues = settings;
    this.#members = view.members;
    const sharedFrom = JSON.stringify([workerId(), view.members, settings]);
    for (const worker of queueWorkers()) {
      const queue = settings.find(({ name }) => name === worker.queue);
      if (!queue) continue;
      worker.claims.limit(queue.limited);
      if (sharedFrom !== this.#sharedFrom) this.#share(worker, queue.ordering);
    }
    this.#sharedFrom = sharedFrom;
    changed();
    const known = this.#dead;
    this.#dead = view.dead;
    // Whoever declared them dead recovers; beside it one for each queue is enough. A start recovers by itself.
    const news = known && view.dead.some((id) => !known.includes(id));
    if (news && this.#led.length > 0) this.#deps.recover(this.#led);
  }

  #handling(queue: string): string[] {
    return this.#members.filter(({ handles }) => handles[queue]).map(({ id }) => id);
  }

  /** Which buckets of a queue that is read by key this worker reads first. */
  #share({ queue, claims }: QueueWorker, ordering: Ordering): void {
    const owners = ordering === 'none' ? [] : ringOwners(this.#handling(queue));
    const workerId = this.#deps.workerId();
    const buckets = owners.flatMap((owner, bucket) => (owner === workerId ? [bucket] : []));
    claims.assign(ordering, buckets);
    if (ordering !== 'none')
      this.#deps.emit({ kind: 'ring', workerId, queue, owned: buckets.length });
  }
}
