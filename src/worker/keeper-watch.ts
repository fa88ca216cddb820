/**
 * Watching the others: who holds no lock is gone, once that has been seen twice.
 *
 * Every worker watches all others, the less often the more there are: a fleet of four to forty makes about
 * four looks a second, a larger one a look in every heartbeat. A free lock is looked at again after a moment
 * before its worker is declared dead, because a process that lives takes its lock back as soon as it is
 * connected. A watcher that was itself cut off until lately trusts nothing that it sees: the others may
 * still be on their way back.
 * The same look brings the fleet's epoch, and the news that this worker was declared dead itself. If it
 * comes when a heartbeat is due, or soon will be, it is the heartbeat as well.
 */
import { declareGone, findGone, markWatched } from '../fleet/liveness.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import type { Line } from './keeper-line.js';
import type { FromKeeper } from './keeper-protocol.js';

/** Between the two looks that it takes. A reconnection takes a few milliseconds, or a tenth of this. */
export const CONFIRM_MS = 700;
/** A suspicion that is older is forgotten: much may have happened since. */
const FORGET_MS = 5_000;
const PER_MEMBER_MS = 250;
const SHORTEST_MS = 1_000;
/** A watcher only watches for so long, before it declares anybody dead. */
const YOUNG_MS = 1_000;
/** After an outage: as long as others may take to notice that their connection is half open. */
const OUTAGE_MS = 15_000;

/** Which locks were found free, and since when. */
export class Suspects {
  readonly #since = new Map<string, number>();

  get any(): boolean {
    return this.#since.size > 0;
  }

  /** Takes what a look has found, and returns those that were free for long enough to be declared. */
  saw(free: readonly string[], now: number): string[] {
    for (const [id, since] of this.#since) {
      if (!free.includes(id) || now - since > FORGET_MS) this.#since.delete(id);
    }
    for (const id of free) if (!this.#since.has(id)) this.#since.set(id, now);
    return free.filter((id) => now - (this.#since.get(id) as number) >= CONFIRM_MS);
  }

  clear(): void {
    this.#since.clear();
  }
}

export interface WatchGround {
  readonly line: Line;
  readonly names: Names;
  readonly heartbeatMs: number;
  /** The line is a session of its own, and holds the lock. */
  readonly direct: () => boolean;
  readonly workerId: () => string;
  readonly declaredDead: (workerId: string) => void;
  /** What a heartbeat says of this worker. Without it, looks are only looks. */
  readonly facts?: () => object;
  readonly tell: (message: FromKeeper) => void;
}

export class Watch {
  readonly #ground: WatchGround;
  readonly #suspects = new Suspects();
  #markedFor: string | null = null;
  #epoch = 0;
  #everyMs = 0;
  #beatAt = Number.NEGATIVE_INFINITY;
  #beatFor: string | null = null;

  constructor(ground: WatchGround) {
    this.#ground = ground;
  }

  /** How long ago a look was a heartbeat of the worker under its present id. */
  get beatAgoMs(): number {
    const known = this.#beatFor === this.#ground.workerId();
    return known ? performance.now() - this.#beatAt : Number.POSITIVE_INFINITY;
  }

  /** One look. Returns in how many milliseconds the next one is due. */
  async look(): Promise<number> {
    const { line, names, heartbeatMs, workerId, declaredDead, facts, tell } = this.#ground;
    const id = workerId();
    const db = await line.executor();
    await this.#mark(db, id);
    const askedAt = performance.now();
    const due = facts && this.beatAgoMs >= heartbeatMs / 2;
    const look = await findGone(db, names, id, due ? facts() : null);
    // Reborn meanwhile: this look was made with the eyes of the dead.
    if (id !== workerId()) return 0;
    if (look.epoch !== this.#epoch) tell({ kind: 'epoch', epoch: look.epoch });
    this.#epoch = look.epoch;
    if (look.beat) this.#countBeat(id, askedAt);
    const before = this.#everyMs;
    this.#everyMs = Math.max(look.members * PER_MEMBER_MS, SHORTEST_MS);
    if (look.status === null || look.status === 'dead') declaredDead(id);
    else await this.#judge(db, look.free);
    if (look.status === 'draining') tell({ kind: 'drain-asked' });
    if (this.#suspects.any) return Math.min(this.#everyMs, CONFIRM_MS);
    return this.#nextMs(before);
  }

  #nextMs(everyMsBefore: number): number {
    const { heartbeatMs, facts } = this.#ground;
    const everyMs = Math.min(this.#everyMs, heartbeatMs);
    // Workers that were started together must not go on looking together.
    if (this.#everyMs > 1.25 * everyMsBefore) return everyMs * Math.random();
    if (!facts) return everyMs * (0.75 + Math.random() * 0.5);
    const beatInMs = Math.max(0, heartbeatMs - this.beatAgoMs);
    return Math.min(this.#everyMs * (0.75 + Math.random() * 0.5), beatInMs);
  }

  #countBeat(id: string, askedAt: number): void {
    this.#beatAt = askedAt;
    this.#beatFor = id;
    this.#ground.tell({ kind: 'beat', workerId: id });
  }

  /** The others may rely on the lock only when it is held. */
  async #mark(db: Executor, id: string): Promise<void> {
    const { line, names, direct, tell } = this.#ground;
    const markFor = direct() && line.heldFor === id ? id : null;
    if (markFor === this.#markedFor) return;
    await markWatched(db, names, id, markFor !== null);
    this.#markedFor = markFor;
    if (markFor !== null) tell({ kind: 'watched' });
  }

  /** On the session that looked: that it has lasted is what makes it a witness. */
  async #judge(db: Executor, free: readonly string[]): Promise<void> {
    const { line, names, direct, tell } = this.#ground;
    const sureAfterMs = line.reconnected ? this.#everyMs + OUTAGE_MS : YOUNG_MS;
    if (!direct() || line.ageMs < sureAfterMs) return this.#suspects.clear();
    const ripe = this.#suspects.saw(free, performance.now());
    if (ripe.length === 0) return;
    const gone = await declareGone(db, names, ripe);
    this.#suspects.clear();
    if (gone.length > 0) tell({ kind: 'gone', ids: gone });
  }
}
