/**
 * Wake-ups: a worker that has nothing to do on a queue sleeps, and whoever inserts a job for it wakes it.
 *
 * The runner of a queue says whether it wants to sleep; here that wish becomes locks on the listener's
 * session, one statement at a time, and the last wish wins. A loss of the session, or more notifications
 * than the budget allows, gets every sleeper up, and the runner is told. All of this is about speed: a
 * worker without a listener, or with a deaf one, finds every job by polling.
 */
import { holdLiveness } from '../fleet/liveness.js';
import { lockKeyOf } from '../fleet/registry.js';
import {
  channelOf,
  FLEET_CHANNEL,
  fallAsleep,
  getUp,
  type OwnersOfTypes,
  ping,
} from '../fleet/wake.js';
import { Listener } from '../postgres/listen.js';
import type { Executor } from '../postgres/queryable.js';
import { pause } from './backoff.js';
import { HintBudget } from './hint-budget.js';
import { RingPublisher } from './ring-publisher.js';

export interface WakeupsGround {
  /** A direct one: sessions are kept on it. */
  readonly connectionString: string;
  /** Off: never listens and never sleeps, but tells others who is to be woken. */
  readonly on: boolean;
  /** Whether the listener's session holds the liveness lock too. */
  readonly liveness: boolean;
  readonly schema: string;
  readonly queues: readonly string[];
  readonly workerId: string;
  /** Statements on other connections than the listener's. */
  readonly other: Executor;
  /** There may be new jobs in these buckets; null: anywhere. */
  readonly hint: (queue: string, buckets: readonly number[] | null) => void;
  /** The queue's runner wanted to sleep and does not any more. */
  readonly risen: (queue: string) => void;
  readonly fleetChanged: () => void;
  readonly trouble: (what: string, error: unknown) => void;
  readonly callEveryMs?: number;
  readonly hearWithinMs?: number;
}

/** An insert that looks at the same moment is in the way of the locks; so often they are tried. */
const TRIES = 5;
const TRY_AGAIN_MS = 5;

interface SleepState {
  readonly queue: string;
  readonly budget: HintBudget;
  wanted: boolean;
  asleep: boolean;
  /** Who waits to hear whether the worker sleeps. */
  waiting: ((asleep: boolean) => void)[];
}

export class Wakeups {
  readonly #ground: WakeupsGround;
  readonly #listener: Listener;
  readonly #states: ReadonlyMap<string, SleepState>;
  readonly #halt = new AbortController();
  readonly #publisher: RingPublisher;
  #workerId: string;
  #moving = false;

  constructor(ground: WakeupsGround) {
    this.#ground = ground;
    this.#workerId = ground.workerId;
    this.#states = new Map(ground.queues.map((queue) => [queue, awake(queue)]));
    const { connectionString, schema, other, trouble, callEveryMs, hearWithinMs } = ground;
    this.#publisher = new RingPublisher({ db: other, schema, trouble });
    this.#listener = new Listener({
      connectionString,
      channels: () => [channelOf(this.#lockKey), FLEET_CHANNEL],
      prepare: (db) => this.#prepare(db),
      up: () => this.#ground.fleetChanged(),
      down: () => this.#down(),
      heard: (channel, payload) => this.#heard(channel, payload),
      call: (word) => ping(other, this.#names(), word),
      trouble,
      ...(callEveryMs !== undefined && { callEveryMs }),
      ...(hearWithinMs !== undefined && { hearWithinMs }),
    });
  }

  get #lockKey(): number {
    return lockKeyOf(this.#workerId);
  }

  #names(queue = 'inbox') {
    return { schema: this.#ground.schema, queue };
  }

  start(): void {
    if (this.#ground.on) this.#listener.start();
  }

  async stop(): Promise<void> {
    this.#halt.abort();
    this.#publisher.stop();
    await this.#listener.stop();
  }

  /** Under a new id from now on: another channel and other locks, so a new session. */
  identify(workerId: string): void {
    this.#workerId = workerId;
    this.#listener.restart();
  }

  listening(): boolean {
    return this.#listener.state === 'on';
  }

  /** False while nobody could wake this worker, or while it would be woken too often. */
  maySleep(queue: string): boolean {
    return this.listening() && this.#state(queue).budget.allows(performance.now());
  }

  /**
   * True when this worker is told of what is inserted from now on; so what came before must be looked for
   * once more. False when it stays awake.
   */
  sleep(queue: string): Promise<boolean> {
    const state = this.#state(queue);
    if (!this.maySleep(queue)) return Promise.resolve(false);
    state.wanted = true;
    if (state.asleep) return Promise.resolve(true);
    return new Promise((resolve) => {
      state.waiting.push(resolve);
      void this.#move();
    });
  }

  rise(queue: string): void {
    const state = this.#state(queue);
    state.wanted = false;
    answer(state, false);
    void this.#move();
  }

  /** So many jobs were claimed. Many of them mean that it would be woken too often. */
  found(queue: string, jobs: number): void {
    const state = this.#state(queue);
    if (!state.wanted) state.budget.found(jobs, performance.now());
  }

  /** Tells inserts who owns which bucket. Every worker does so; the first one for an epoch is enough. */
  publish(queue: string, epoch: number, groups: readonly OwnersOfTypes[]): void {
    const owners = new Set(groups.flatMap((group) => group.owners));
    const state = this.#states.get(queue);
    if (state) state.budget.workers = owners.size;
    this.#publisher.publish(queue, epoch, groups);
  }

  #state(queue: string): SleepState {
    const state = this.#states.get(queue);
    if (!state) throw new Error(`queue ${queue} is not served here`);
    return state;
  }

  async #prepare(db: Executor): Promise<void> {
    if (this.#ground.liveness) await holdLiveness(db, this.#names(), this.#workerId);
  }

  /** The session is gone, and with it the locks and perhaps the last hints. */
  #down(): void {
    for (const state of this.#states.values()) {
      state.asleep = false;
      this.#wakeUp(state);
    }
  }

  #wakeUp(state: SleepState): void {
    const wanted = state.wanted;
    state.wanted = false;
    answer(state, false);
    if (this.#halt.signal.aborted || !wanted) return;
    this.#ground.risen(state.queue);
    this.#ground.hint(state.queue, null);
  }

  #heard(channel: string, payload: string): void {
    const words = payload.split(':');
    if (channel === FLEET_CHANNEL) {
      if (words.shift() !== this.#ground.schema) return;
      if (words.length === 0) {
        this.#ground.fleetChanged();
        return;
      }
    }
    const [queue = '', list = ''] = words;
    const state = this.#states.get(queue);
    if (!state) return;
    if (state.wanted && !state.budget.spend(performance.now())) {
      this.#wakeUp(state);
      void this.#move();
    } else {
      this.#ground.hint(queue, list === '*' ? null : list.split(',').map(Number));
    }
  }

  /** Makes the locks follow the wishes, one statement at a time. */
  async #move(): Promise<void> {
    if (this.#moving) return;
    this.#moving = true;
    const differs = (state: SleepState) => state.wanted !== state.asleep;
    for (;;) {
      const state = [...this.#states.values()].find(differs);
      if (!state || !this.listening()) break;
      try {
        if (state.wanted) await this.#fallAsleep(state);
        else await this.#getUp(state);
      } catch {
        // The listener has told of it and ends the session, and that gets everybody up.
        state.asleep = false;
      }
    }
    this.#moving = false;
  }

  /** A wish to sleep that comes meanwhile is granted by new locks, not by those that are let go. */
  async #getUp(state: SleepState): Promise<void> {
    state.asleep = false;
    await this.#listener.run((db) => getUp(db, this.#names(state.queue), this.#lockKey));
  }

  async #fallAsleep(state: SleepState): Promise<void> {
    const names = this.#names(state.queue);
    for (let tries = 0; state.wanted && tries < TRIES; tries++) {
      if (tries > 0) await pause(TRY_AGAIN_MS, this.#halt.signal);
      state.asleep = await this.#listener.run((db) => fallAsleep(db, names, this.#lockKey));
      if (!state.asleep) continue;
      state.budget.fellAsleep(performance.now());
      if (state.wanted) answer(state, true);
      return;
    }
    state.wanted = false;
    answer(state, false);
  }
}

function awake(queue: string): SleepState {
  return {
    queue,
    budget: new HintBudget(),
    wanted: false,
    asleep: false,
    waiting: [],
  };
}

function answer(state: SleepState, asleep: boolean): void {
  for (const resolve of state.waiting.splice(0)) resolve(asleep);
}
