/** What giving a handler its context needs. */
import type pg from 'pg';
import type { KnownQueues } from '../../fleet/known-queues.js';
import type { LockGate } from '../../postgres/connect/lock-gate.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import type { SharedDeps, WorkerDeps } from '../deps.js';
import type { RunsIo } from '../workflow/runs-io.js';
import type { Leaks } from './leaks.js';

type Shared = Pick<SharedDeps, 'engine' | 'log' | 'emit'>;
type OfWorker = Pick<WorkerDeps, 'pool' | 'maxPayloadBytes' | 'tracing' | 'strict'>;

/** Effect markers are written by `engine`: handlers cannot exhaust it by holding transactions. */
export interface ContextDeps extends Shared, OfWorker {
  readonly names: Names;
  /** The worker's own, for completions with children: handlers cannot exhaust it. */
  readonly ownPool: pg.Pool;
  /** For transactions on it; left out where there is one queue only. */
  readonly gate?: LockGate;
  /** What a transaction on it begins with, if its sessions cannot keep settings. */
  readonly begin?: string;
  readonly plain: Executor;
  /** Where children may go; shared by the queues of a worker. */
  readonly knownQueues: KnownQueues;
  /** Who minds handlers that run on without their job; left out by the test kit, which waits for all of them. */
  readonly leaks?: Leaks;
  /** What the turns of workflows ask of the database; left out where the queue has none. */
  readonly runsIo?: RunsIo;
}
