/**
 * Wake-ups: a session that listens for hints of producers, and the locks by which a worker asks for them. A wish of a claim
 * loop becomes a lock on the listener's session, one statement at a time. Without a listener, polls find every job.
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
import { newListener } from '../../postgres/connect/listen.js';
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
  /** A signal was sent to a run of this queue. */
  readonly signalled?: (queue: string) => void;
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

export type Wakeups = ReturnType<typeof newWakeups>;

export function newWakeups(deps: WakeupsDeps) {
  const { address, channels, schema, fleetChanged, schedulesChanged } = deps;
  let { workerId } = deps;
  let moving = false;
  let stopped = false;
  const none = { wanted: null, hints: false, active: false };
  const wishes = new Map<string, Wish>(
    [...channels.values()].map((queue) => [queue, { queue, ...none }]),
  );
  const namesOf = (queue: string) => ({ schema, queue });
  const listener = newListener({
    address,
    channels: () => [...channels.keys(), FLEET_CHANNEL],
    async prepare(db) {
      if (deps.livenessLock) await holdLiveness(db, namesOf('inbox'), workerId);
      await holdListening(db, namesOf('inbox'));
    },
    up() {
      fleetChanged();
      schedulesChanged?.(null);
      // Nobody sent a hint for what was inserted before.
      for (const queue of wishes.keys()) deps.listening(queue);
      void move();
    },
    /** The session is gone, and with it the locks and perhaps the last hints. */
    down() {
      for (const wish of wishes.values()) {
        wish.hints = false;
        wish.active = false;
        if (!stopped) deps.hint(wish.queue, { since: null, buckets: null, types: null });
      }
    },
    notified(channel, payload) {
      if (channel === FLEET_CHANNEL) {
        const [of, what, at] = payload.split(' ');
        if (payload === schema) fleetChanged();
        else if (of === schema && what === 'schedules') schedulesChanged?.(Number(at));
        else if (of === schema && what === 'signals') deps.signalled?.(String(at));
        return;
      }
      const queue = channels.get(channel);
      const hint = queue === undefined ? null : hintIn(payload);
      if (queue !== undefined && hint) deps.hint(queue, hint);
    },
    ping: (payload) => ping(deps.other, namesOf('inbox'), payload),
    reportError: deps.reportError,
  });
  const listening = () => listener.state === 'on';

  /** Makes the locks follow the wishes. */
  async function move(): Promise<void> {
    if (moving) return;
    moving = true;
    while (listening()) {
      const wish = [...wishes.values()].find((one) => nextStep(one) !== null);
      const [lock, take] = (wish && nextStep(wish)) ?? [];
      if (!wish || lock === undefined) break;
      const names = namesOf(wish.queue);
      try {
        await listener.run((db) => (take ? holdQueueLock : leaveQueueLock)(db, names, lock));
        const held = take === true && listening();
        if (lock === ACTIVE) wish.active = held;
        else wish.hints = held;
        // Nobody sent a hint for what was inserted between the last claim and the lock.
        if (lock === WANTS_HINTS && held) deps.listening(wish.queue);
      } catch {
        // The listener has reported it and ends the session.
        break;
      }
    }
    moving = false;
  }

  return {
    listening,
    start(): void {
      if (deps.on) listener.start();
    },
    async stop(): Promise<void> {
      stopped = true;
      await listener.stop();
    },
    /** Under a new id from now on: another liveness lock, so a new session. */
    identify(id: string): void {
      workerId = id;
      listener.restart();
    },
    /** Producers send hints for this queue, and they arrive. */
    getsHints(queue: string): boolean {
      const wish = wishes.get(queue);
      return listening() && wish !== undefined && (wish.hints || !wish.active);
    },
    isQuiet: (queue: string): boolean => wishes.get(queue)?.wanted === null,
    /** Null: nothing has happened in this queue for a while. */
    want(queue: string, wanted: boolean | null): void {
      const wish = wishes.get(queue);
      if (!wish || wish.wanted === wanted) return;
      wish.wanted = wanted;
      void move();
    },
  };
}
