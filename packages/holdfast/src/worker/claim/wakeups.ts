/**
 * Wake-ups: a session that listens for hints of producers, and the locks by which a worker asks for them. The claim loop of
 * a queue says whether it wants hints; here that wish becomes a lock on the listener's session, one statement at a time, and
 * the last wish wins. All of this is about speed: a worker without a listener finds every job by polling.
 */
import type { Hint } from '../../claim/source.js';
import { holdLiveness } from '../../fleet/liveness.js';
import {
  ACTIVE,
  FLEET_CHANNEL,
  holdListening,
  holdQueueLock,
  leaveQueueLock,
  ping,
  WANTS_HINTS,
} from '../../fleet/wake.js';
import { BUCKETS } from '../../job/key.js';
import type { Address } from '../../postgres/connect/address.js';
import { Listener } from '../../postgres/connect/listen.js';
import type { Executor } from '../../postgres/queryable.js';
import type { SharedDeps } from '../deps.js';

export interface WakeupsDeps extends Pick<SharedDeps, 'schema' | 'reportError'> {
  /** A direct one: sessions are kept on it. */
  readonly address: Address;
  /** Off: never listens. */
  readonly on: boolean;
  /** Whether the listener's session holds the liveness lock too. */
  readonly livenessLock: boolean;
  /** By channel, the queues that are served. */
  readonly channels: ReadonlyMap<string, string>;
  readonly workerId: string;
  /** Statements on other connections than the listener's. */
  readonly other: Executor;
  /** Jobs were written. */
  readonly hint: (queue: string, hint: Hint) => void;
  /** From now on hints arrive; what was written before must be read. */
  readonly listening: (queue: string) => void;
  readonly fleetChanged: () => void;
  /** A schedule fires at this time of the database, in milliseconds; null: some may. */
  readonly schedulesChanged?: (at: number | null) => void;
}

/** What a worker wants of a queue, and the locks that it holds for it. */
interface Wish {
  readonly queue: string;
  /** Null: it is quiet there, and hints are sent unless somebody is active. */
  wanted: boolean | null;
  hints: boolean;
  active: boolean;
}

/** The next lock to take or to leave, in an order in which no hint is missed; null: all is as it is wanted. */
function nextStep({ wanted, hints, active }: Wish): [lock: number, take: boolean] | null {
  if (wanted && !hints) return [WANTS_HINTS, true];
  if (wanted !== null && !active) return [ACTIVE, true];
  if (wanted === null && active) return [ACTIVE, false];
  return !wanted && hints ? [WANTS_HINTS, false] : null;
}

/** Null: nobody of ours has sent it. A claim that names no bucket would fail again and again. */
function hintIn(payload: string): Hint | null {
  const [since = '', ...rest] = payload.split(':');
  const at = since === '*' ? null : new Date(Number(since) * 100);
  const list = rest.join(':');
  const all = list === '' || list === '*';
  // A type begins with a letter.
  if (all || /^[A-Za-z]/.test(list))
    return { since: at, buckets: null, types: all ? null : list.split(',') };
  const buckets = list.split(',').map(Number);
  const areOurs = buckets.every((b) => Number.isInteger(b) && b >= 0 && b < BUCKETS);
  return areOurs ? { since: at, buckets, types: null } : null;
}

export class Wakeups {
  readonly #deps: WakeupsDeps;
  readonly #listener: Listener;
  readonly #wishes: ReadonlyMap<string, Wish>;
  #workerId: string;
  #moving = false;
  #stopped = false;

  constructor(deps: WakeupsDeps) {
    this.#deps = deps;
    this.#workerId = deps.workerId;
    const { address, channels, other, reportError } = deps;
    const none = { wanted: null, hints: false, active: false };
    this.#wishes = new Map([...channels.values()].map((queue) => [queue, { queue, ...none }]));
    this.#listener = new Listener({
      address,
      channels: () => [...channels.keys(), FLEET_CHANNEL],
      prepare: (db) => this.#prepare(db),
      up: () => this.#up(),
      down: () => this.#down(),
      notified: (channel, payload) => this.#notified(channel, payload),
      ping: (payload) => ping(other, this.#names('inbox'), payload),
      reportError,
    });
  }

  #names(queue: string) {
    return { schema: this.#deps.schema, queue };
  }

  start(): void {
    if (this.#deps.on) this.#listener.start();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#listener.stop();
  }

  /** Under a new id from now on: another liveness lock, so a new session. */
  identify(workerId: string): void {
    this.#workerId = workerId;
    this.#listener.restart();
  }

  listening(): boolean {
    return this.#listener.state === 'on';
  }

  /** Producers send hints for this queue, and they arrive. */
  getsHints(queue: string): boolean {
    const wish = this.#wishes.get(queue);
    return this.listening() && wish !== undefined && (wish.hints || !wish.active);
  }

  isQuiet(queue: string): boolean {
    return this.#wishes.get(queue)?.wanted === null;
  }

  /** Null: nothing has happened in this queue for a while. */
  want(queue: string, wanted: boolean | null): void {
    const wish = this.#wishes.get(queue);
    if (!wish || wish.wanted === wanted) return;
    wish.wanted = wanted;
    void this.#move();
  }

  async #prepare(db: Executor): Promise<void> {
    if (this.#deps.livenessLock) await holdLiveness(db, this.#names('inbox'), this.#workerId);
    await holdListening(db, this.#names('inbox'));
  }

  #up(): void {
    this.#deps.fleetChanged();
    this.#deps.schedulesChanged?.(null);
    // Nobody sent a hint for what was inserted before.
    for (const queue of this.#wishes.keys()) this.#deps.listening(queue);
    void this.#move();
  }

  /** The session is gone, and with it the locks and perhaps the last hints. */
  #down(): void {
    for (const wish of this.#wishes.values()) {
      wish.hints = false;
      wish.active = false;
      if (!this.#stopped) this.#deps.hint(wish.queue, { since: null, buckets: null, types: null });
    }
  }

  #notified(channel: string, payload: string): void {
    if (channel === FLEET_CHANNEL) {
      const { schema, fleetChanged, schedulesChanged } = this.#deps;
      const [of, what, at] = payload.split(' ');
      if (payload === schema) fleetChanged();
      else if (of === schema && what === 'schedules') schedulesChanged?.(Number(at));
      return;
    }
    const queue = this.#deps.channels.get(channel);
    if (queue === undefined) return;
    const hint = hintIn(payload);
    if (hint) this.#deps.hint(queue, hint);
  }

  /** Makes the locks follow the wishes. */
  async #move(): Promise<void> {
    if (this.#moving) return;
    this.#moving = true;
    while (this.listening()) {
      const wish = [...this.#wishes.values()].find((one) => nextStep(one) !== null);
      const [lock, take] = (wish && nextStep(wish)) ?? [];
      if (!wish || lock === undefined) break;
      const names = this.#names(wish.queue);
      try {
        await this.#listener.run((db) => (take ? holdQueueLock : leaveQueueLock)(db, names, lock));
        const held = take === true && this.listening();
        if (lock === ACTIVE) wish.active = held;
        else wish.hints = held;
        // Nobody sent a hint for what was inserted between the last claim and the lock.
        if (lock === WANTS_HINTS && held) this.#deps.listening(wish.queue);
      } catch {
        // The listener has reported it and ends the session.
        break;
      }
    }
    this.#moving = false;
  }
}
