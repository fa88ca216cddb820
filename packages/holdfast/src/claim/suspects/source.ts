/**
 * The source of suspects, beside that of the queue's ordering. It is asked after a claim has said that some wait, and when
 * the last of those that ran here has left.
 */
import type { SourceDeps } from '../source.js';
import type { ClaimedJob } from '../take.js';
import { claimSuspects } from './claim.js';

export const isSuspect = ({ crashes }: ClaimedJob) => crashes > 1;

export interface SuspectsDeps extends SourceDeps {
  /** From when on suspects may be claimed. */
  readonly suspectsAt: () => number;
}

export class SuspectsSource {
  readonly #deps: SuspectsDeps;
  /** There are some to claim. */
  #waiting = false;
  #held = 0;

  constructor(deps: SuspectsDeps) {
    this.#deps = deps;
  }

  record(waiting: boolean): void {
    this.#waiting = waiting;
  }

  took(jobs: readonly ClaimedJob[]): void {
    this.#held += jobs.filter(isSuspect).length;
  }

  /** True: it was the last one here, and there may be others. */
  left(job: ClaimedJob): boolean {
    if (!isSuspect(job) || --this.#held > 0) return false;
    this.#waiting = true;
    return true;
  }

  get readAt(): number {
    return this.#waiting ? this.#deps.suspectsAt() : Number.POSITIVE_INFINITY;
  }

  /** True: one of them must run alone. */
  async read(limit: number): Promise<boolean> {
    const { engine, names, send, allowance, versions } = this.#deps;
    this.#waiting = false;
    const open = Object.entries(versions).filter(([type]) => allowance.isOpen(type));
    const claimed = await send(limit, (terms) =>
      claimSuspects(engine, names, { ...terms, versions: Object.fromEntries(open) }),
    );
    allowance.record(claimed.jobs, claimed.refused);
    return claimed.alone;
  }
}
