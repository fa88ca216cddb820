/**
 * A source of jobs: how one ordering is read. It knows its statement, remembers where it was, and says when it wants to be
 * asked. The worker's loop asks sources and knows no ordering. A source has no timers; the clock comes in.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import type { Allowance } from './allowance.js';
import type { Clock } from './pace.js';
import type { Claimed, ClaimedJob, ClaimTerms, QueueNews, Versions } from './take.js';

/** What a claim found; the limit itself means that there is more. */
export interface Found {
  readonly jobs: number;
  /** How long the first of them was due. */
  readonly waitedMs: number;
  /** It took less than it could, and has not read all: the next claim goes on behind it. */
  readonly goesOn?: boolean;
  readonly news: QueueNews | null;
}

/** Where a walk by key ended before the end: it may have cut the run of this key short. */
export interface WalkStop {
  /** Index into the stretches of the request. */
  readonly stretch: number;
  readonly bucket: number;
  readonly key: string;
}

/** What the worker has to know of a claim, beside its jobs. */
export interface ClaimMarks {
  /** Set where jobs of one key stand together and run one after the other; so many of a key were asked for. */
  readonly run?: number;
  readonly stop?: WalkStop | null;
  /** A suspect that must be the only job of its process. */
  readonly alone?: boolean;
}

/** Sends a claim under a number of its own, and hands on what it brought. */
export type Send = <C extends Claimed & ClaimMarks>(
  limit: number,
  send: (terms: ClaimTerms) => Promise<C>,
) => Promise<C>;

export interface SourceDeps {
  readonly names: Names;
  readonly engine: Executor;
  readonly clock: Clock;
  readonly pollMs: number;
  readonly versions: Versions;
  readonly allowance: Allowance;
  readonly send: Send;
  /** How many jobs of one key to take in a row. */
  readonly run: () => number;
}

/** A hint of a producer: jobs were written. */
export interface Hint {
  /** From when on they are due; null: jobs of any age came back. */
  readonly since: Date | null;
  /** Where they are, in a queue that is read by key; null: anywhere. */
  readonly buckets: readonly number[] | null;
  /** Of which types they are, in a queue that is read by time; null: of any. */
  readonly types: readonly string[] | null;
}

/** A job that has left this worker. */
export interface LeftJob {
  readonly row: ClaimedJob;
  /** Its key is free, or it waits again. */
  readonly freesKey: boolean;
  readonly released: boolean;
  /** Something may stand behind it in its key. */
  readonly hasMore: boolean;
  readonly sentAt: number;
}

export interface Source {
  /** The ring prefers this worker for these buckets. */
  own?(buckets: readonly number[]): void;
  /** The rates of these types have keys. */
  useKeys?(types: readonly string[]): void;
  hint(hint: Hint): void;
  /** Something may be due at this time, in these buckets if that is known. Left out where the schedule remembers it. */
  later?(buckets: readonly number[] | null, at: number): void;
  /** A job becomes due at this time; for sources that must read for it. */
  due?(at: number): void;
  /** True: there may be something to read now. */
  left(job: LeftJob): boolean;
  /** When there is something to read although no poll is due. `idle`: scans from the front are left to the polls. */
  readAt(now: number, idle: boolean): number;
  /** `ask`: also ask for news. */
  read(limit: number, ask: boolean): Promise<Found>;
}
