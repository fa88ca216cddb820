/** What the parts of a worker share. Most of them need a few of these only, and say which. */
import type pg from 'pg';
import type { Address } from '../postgres/connect/address.js';
import type { Logger } from '../postgres/log/log.js';
import type { Names } from '../postgres/names.js';
import type { EngineMode, Executor } from '../postgres/queryable.js';
import type { Tracing } from '../tracing/tracing.js';
import type { WorkerEvent, WorkerStats } from './events.js';
import type { Settings } from './options.js';
import type { Route } from './run/handler-context.js';
import type { Time } from './time.js';

/** Whether the registry calls a worker alive, as far as that is known here. */
export type Standing = 'alive' | 'unknown' | 'dead';

/** For claims, settles and maintenance of all queues. Idle ones are closed, but for one. */
export const MAX_CONNECTIONS = 8;
/** Beside those. */
export const OWN_CONNECTIONS = MAX_CONNECTIONS / 2;

export interface StrictCheck {
  check(
    names: Names,
    jobs: readonly { readonly type: string }[],
    ask: () => Executor | Promise<Executor>,
  ): Promise<void>;
}

export interface WorkerDeps {
  readonly address: Address;
  /** A way past a pooler, for the sessions that listen and hold locks. */
  readonly direct: Address | null;
  /** The caller's pool, for handlers' transactions. */
  readonly pool: pg.Pool;
  /** The caller's pool has an address of its own, which may lead elsewhere. */
  readonly besidePool: boolean;
  /** Called at the start: `hf.close()` stops the worker. Throws if that was called before. What it returns is called at the end. */
  readonly enter: (worker: { stop(): Promise<void> }) => () => void;
  readonly schema: string;
  readonly log: Logger;
  readonly maxPayloadBytes: number;
  readonly tracing: Tracing | null;
  readonly listeners: ReadonlySet<(event: WorkerEvent) => void>;
  readonly prepare: boolean;
  /** Rejects if a child is of a type that no worker has registered; null: any type is taken. */
  readonly strict?: StrictCheck | null;
  /** Whether a pooler stands before the database. Null: it is found out at the start. */
  readonly pooler: boolean | null;
}

export interface SharedDeps {
  readonly schema: string;
  readonly queues: readonly string[];
  readonly settings: Settings;
  readonly routes: ReadonlyMap<string, Route>;
  /** Statements on the queue tables, with index plans only. */
  readonly engine: Executor;
  readonly mode: EngineMode;
  readonly log: Logger;
  readonly stats: WorkerStats;
  readonly time: Time;
  readonly workerId: () => string;
  readonly standing: (workerId: string) => Standing;
  readonly emit: (event: WorkerEvent) => void;
  /** Whether anybody listens: two events for every job are not made for nobody. */
  readonly hasListeners: () => boolean;
  readonly reportError: (what: string, error: unknown) => void;
}
