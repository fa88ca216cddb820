/**
 * Suspects: jobs whose worker vanished twice or more while it held them. Their source stands beside that of the queue's ordering.
 *
 * Most crashes are kills and deploys, so a first one changes nothing. A job that crashes again runs apart, in ever
 * smaller groups; `holdfast.inbox_suspects` chooses them (schema/functions/queue/suspects.sql.ts). Only a job that ran
 * alone can be blamed for the next crash: the row says so (`isolated`), and then the attempt counts. Suspects of limited
 * types start only if the allowance lets them, as everywhere.
 */
import { hash32 } from '../job/key.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { allowedOfKept, KEPT_AND_ALLOWED } from './allowed.js';
import type { SourceDeps } from './source.js';
import {
  byDue,
  type Claimed,
  type ClaimedJob,
  type ClaimTerms,
  claim,
  claimStatement,
  openQueue,
  type Versions,
  versionsOf,
} from './take.js';

/** From so many crashes on a job runs alone. */
export const ALONE_FROM = 4;

/** Whoever claims suspects of a queue holds it, with the number of the table. */
export const SUSPECTS_LOCK = hash32('holdfast.suspects') | 0;

export const claimSuspectJobs = claimStatement({
  name: 'claim_suspects',
  ctes: `WITH ${openQueue('true')}, kept AS MATERIALIZED (
  SELECT s.place, s.run FROM holdfast.inbox_suspects($5::integer, $7::text[], $8::jsonb, $9::integer) AS s
  WHERE EXISTS (SELECT FROM open_queue)
), ${allowedOfKept()}`,
  taking: `WHERE i.ctid = ANY (ARRAY(${KEPT_AND_ALLOWED}))`,
  isolated: `i.crashes >= ${ALONE_FROM}`,
  head: {},
});

export interface SuspectsClaim extends Claimed {
  /** There is one, and it must be the only job that runs in its process. */
  readonly alone: boolean;
}

export async function claimSuspects(
  db: Executor,
  names: Names,
  { versions, ...terms }: ClaimTerms & { readonly versions: Versions },
): Promise<SuspectsClaim> {
  const params = [...versionsOf(versions), SUSPECTS_LOCK];
  const claimed = await claim(db, names, claimSuspectJobs, terms, params, byDue);
  return { ...claimed, alone: claimed.jobs.some(({ crashes }) => crashes >= ALONE_FROM) };
}

const isSuspect = ({ crashes }: ClaimedJob) => crashes > 1;

interface SuspectsDeps extends SourceDeps {
  /** From when on suspects may be claimed. */
  readonly suspectsAt: () => number;
}

/** It is asked after a claim has said that some wait, and when the last of those that ran here has left. */
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
