/**
 * How long the fleet takes to make up for a worker that was killed, frozen or cut off: from that
 * moment until the registry calls it dead and none of its jobs is in its name any more. It is given
 * what was seen and asks nothing itself. A worker that came back before anybody missed it needed
 * no recovery.
 */
import type { Overview } from 'holdfast/internal';
import type { Member } from './member.js';

export const MISHAPS = ['killed', 'frozen', 'cut off'] as const;
export type Mishap = (typeof MISHAPS)[number];

export interface Recovery {
  readonly number: number;
  readonly mishap: Mishap;
  readonly workerId: string;
  readonly since: number;
  /** Jobs held at the first look after it. */
  held: number | null;
  /** Null: not over yet. */
  tookMs: number | null;
  back: boolean;
}

export class Recoveries {
  #all: Recovery[] = [];

  get open(): readonly Recovery[] {
    return this.#all.filter(({ tookMs }) => tookMs === null);
  }

  get done(): readonly Recovery[] {
    return this.#all.filter(({ tookMs }) => tookMs !== null);
  }

  begin(member: Member, mishap: Mishap, now: number): void {
    const { number, id: workerId } = member;
    // One that is frozen and then killed is made up for once.
    if (workerId === null || this.#all.some((one) => one.workerId === workerId)) return;
    const open = { held: null, tookMs: null, back: false };
    this.#all.push({ number, mishap, workerId, since: now, ...open });
  }

  /** It was woken up, or mended. */
  cameBack(workerId: string): void {
    for (const one of this.open) if (one.workerId === workerId) one.back = true;
  }

  /** It is drained by whoever quits: nobody had to make up for it. */
  forget(workerId: string): void {
    this.#all = this.#all.filter((one) => one.tookMs !== null || one.workerId !== workerId);
  }

  /**
   * Takes a look that was begun at `asked`, and returns the recoveries that it shows to be over.
   */
  saw({ workers }: Overview, asked: number, now: number): Recovery[] {
    // A look from before the mishap shows the worker in good health.
    const open = this.open.filter(({ since }) => since <= asked);
    for (const one of open) {
      const row = workers.find(({ worker }) => worker.id === one.workerId);
      one.held ??= row?.held ?? 0;
      const dead = row === undefined || row.worker.status === 'dead';
      if (dead && (row?.held ?? 0) === 0) one.tookMs = now - one.since;
      else if (one.back && !dead) this.#all = this.#all.filter((other) => other !== one);
    }
    return open.filter(({ tookMs }) => tookMs !== null);
  }
}
