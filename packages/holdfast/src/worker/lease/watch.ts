/**
 * Watching the fleet: a worker whose liveness lock was found free twice is dead. A watcher that was cut off until lately
 * declares nobody: the others may be on their way back. Every worker watches all others, less often the more there are. A
 * check is the heartbeat as well when one is due, or when the lock was just taken: before that heartbeat nobody judges by
 * the lock, because the session may break before this worker knows that it has marked it.
 */
import { declareGone, findGone, markWatched } from '../../fleet/liveness.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { CHECK_MS } from '../time.js';
import type { Connection } from './connection.js';
import { monotonicMs, type Tell } from './protocol.js';

/** Between the two checks that a death takes. A reconnection takes a tenth of this. */
export const CONFIRM_MS = 0.7 * CHECK_MS;
/** After an outage nobody is declared dead for so long: others may not have noticed a half-open connection yet. */
const OUTAGE_MS = 15 * CHECK_MS;

export class FreeLocks {
  readonly #since = new Map<string, number>();

  get any(): boolean {
    return this.#since.size > 0;
  }

  /** Takes what a check has found, and returns those that were free for long enough to be declared. */
  record(free: readonly string[], now: number): string[] {
    // An old finding counts for nothing: the watcher may have been frozen since.
    for (const [id, since] of this.#since) {
      if (!free.includes(id) || now - since > 5 * CHECK_MS) this.#since.delete(id);
    }
    for (const id of free) if (!this.#since.has(id)) this.#since.set(id, now);
    return free.filter((id) => now - (this.#since.get(id) as number) >= CONFIRM_MS);
  }

  clear(): void {
    this.#since.clear();
  }
}

interface WatchDeps {
  readonly connection: Connection;
  readonly names: Names;
  readonly heartbeatMs: number;
  /** Whether the connection is a session of its own that holds the lock. */
  readonly locks: () => boolean;
  readonly workerId: () => string;
  readonly metadata: () => object;
  readonly confirmedAgoMs: () => number;
  readonly confirmed: (workerId: string, sentAt: number) => void;
  readonly declaredDead: (workerId: string) => void;
  readonly tell: Tell;
}

/** This machine's clock minus the database's, and how far that may be wrong: half of the way there and back. */
function clockBeside(databaseMs: number, askedAt: number, answeredAt: number) {
  const withinMs = Math.max(0, answeredAt - askedAt) / 2;
  return { aheadMs: Math.round((askedAt + answeredAt) / 2 - databaseMs), withinMs };
}

/** Returns one check; that returns in how many milliseconds the next one is due. */
export function newWatch(deps: WatchDeps): (db: Executor) => Promise<number> {
  const { connection, names, heartbeatMs, locks, workerId, confirmedAgoMs, tell } = deps;
  const freeLocks = new FreeLocks();
  let markedFor: string | null = null;
  /** The id under which it was seen, on the session that holds the lock. From then on others may judge by the lock. */
  let seenFor: string | null = null;
  let epoch = 0;
  /** As the last check found it; the next heartbeat tells it. */
  let clock: ReturnType<typeof clockBeside> | null = null;
  let everyMs = 0;

  /** Its lock is held and marked, and no heartbeat since has shown that the session lasts. */
  const isUnseen = () => markedFor !== seenFor && markedFor !== null;

  /** Others may rely on the lock only when it is held; so it is taken first and marked then. */
  async function takeLock(db: Executor, id: string): Promise<void> {
    const lockFor = locks() ? id : null;
    await connection.holdLock(db, lockFor);
    if (lockFor === markedFor) return;
    await markWatched(db, names, id, lockFor !== null);
    markedFor = lockFor;
  }

  /** Only a session that has lasted for a while may declare workers dead. */
  async function judge(db: Executor, free: readonly string[]): Promise<void> {
    const trustedAfterMs = connection.reconnected ? everyMs + OUTAGE_MS : CHECK_MS;
    if (!locks() || connection.ageMs < trustedAfterMs) return freeLocks.clear();
    const confirmed = freeLocks.record(free, monotonicMs());
    if (confirmed.length === 0) return;
    const gone = await declareGone(db, names, confirmed);
    freeLocks.clear();
    if (gone.length > 0) tell('gone', gone);
  }

  function nextMs(everyMsBefore: number): number {
    if (freeLocks.any || isUnseen()) return CONFIRM_MS;
    // Workers that were started together must not go on checking together.
    if (everyMs > 1.25 * everyMsBefore) return Math.min(everyMs, heartbeatMs) * Math.random();
    // A heartbeat was due and not counted when somebody has locked the row: no hot loop then.
    const beatInMs = Math.max(heartbeatMs - confirmedAgoMs(), heartbeatMs / 4);
    return Math.min(everyMs * (0.75 + Math.random() * 0.5), beatInMs);
  }

  return async (db) => {
    const id = workerId();
    await takeLock(db, id);
    const sentAt = monotonicMs();
    const due = isUnseen() || confirmedAgoMs() >= heartbeatMs / 2;
    const askedAt = Date.now();
    const facts = due ? { ...deps.metadata(), ...(clock && { clock }) } : null;
    const found = await findGone(db, names, id, facts);
    clock = clockBeside(found.nowMs, askedAt, Date.now());
    // The worker re-registered during the query; discard the result.
    if (id !== workerId()) return 0;
    if (found.epoch !== epoch) tell('epoch', found.epoch);
    epoch = found.epoch;
    if (found.beat) {
      deps.confirmed(id, sentAt);
      if (isUnseen()) tell('watched');
      seenFor = markedFor;
    }
    const before = everyMs;
    // Alone there is nobody to watch; who joins is seen within a heartbeat.
    const shortestMs = found.members > 1 ? CHECK_MS : 3 * CHECK_MS;
    everyMs = Math.max((found.members * CHECK_MS) / 4, shortestMs);
    if (found.status === null || found.status === 'dead') deps.declaredDead(id);
    else await judge(db, found.free);
    if (found.status === 'draining') tell('drainAsked');
    return nextMs(before);
  };
}
