/**
 * A call of enqueue: its options, backpressure, and the transaction that the jobs are written in: the caller's, or one of
 * our own if one statement does not hold them.
 */
import type pg from 'pg';
import {
  type Enqueued,
  type EnqueueLimits,
  needsTransaction,
  prepareJobs,
  writeJobs,
} from '../../enqueue/enqueue.js';
import type { NewJob } from '../../enqueue/insert.js';
import type { EnqueueItem } from '../../job/job.js';
import { untilNotLost } from '../../postgres/connect/backoff.js';
import { BEGIN_BOUNDED } from '../../postgres/connect/bounded.js';
import { withTransaction } from '../../postgres/connect/pool.js';
import { asPoolBusy } from '../../postgres/connect/transient.js';
import { inQueue } from '../../postgres/in-queue.js';
import type { Names } from '../../postgres/names.js';
import { type Executor, executor } from '../../postgres/queryable.js';
import type { Tracing, WithContext } from '../../tracing/tracing.js';
import { checkCall, type EnqueueCall, fullWaitMs } from '../options.js';
import type { Backpressure } from './backpressure.js';
import { asLocked, EnqueueGate } from './enqueue-gate.js';
import type { StrictTypes } from './strict-types.js';

interface EnqueuerDeps {
  readonly names: (queue: string) => Names;
  readonly maxPayloadBytes: number;
  readonly tracing: Tracing | null;
  readonly checkOpen: () => void;
  readonly pool: () => pg.Pool;
  readonly observer: () => pg.Pool;
  /** Statements outside of any transaction. */
  readonly outside: () => Promise<Executor>;
  readonly backpressure: Backpressure;
  /** Null: any type is taken. */
  readonly strict: StrictTypes | null;
  readonly emitEnqueued: (
    queue: string,
    jobs: readonly NewJob[],
    written: readonly Enqueued[],
  ) => void;
}

export function enqueuer(deps: EnqueuerDeps) {
  const { names, maxPayloadBytes, tracing, checkOpen, pool, observer, outside, backpressure } =
    deps;
  const gate = new EnqueueGate(pool);

  async function enqueueMany(
    items: readonly EnqueueItem[],
    call: EnqueueCall = {},
  ): Promise<Enqueued[]> {
    checkOpen();
    checkCall(items, call);
    if (items.length === 0) return [];
    const queue = items[0]?.job.queue as string;
    const waitMs = fullWaitMs(call);
    if (!tracing) return send(queue, items, call, waitMs);
    const first = items[0]?.job.type as string;
    const type = items.every((item) => item.job.type === first) ? first : null;
    return tracing.send({ queue, type, count: items.length, operation: 'send' }, (withContext) =>
      send(
        queue,
        items.map((item) => withHeaders(item, withContext)),
        call,
        waitMs,
      ),
    );
  }

  async function send(
    queue: string,
    items: readonly EnqueueItem[],
    call: EnqueueCall,
    waitMs: number | null,
  ) {
    const limits = { maxPayloadBytes, onMismatch: call.onMismatch ?? 'error' } as const;
    const jobs = await prepareJobs(items, limits);
    const tx = call.tx ? executor(call.tx) : null;
    const of = names(queue);
    const admit = () => backpressure.admit({ names: of, jobs: jobs.length, tx, waitMs });
    const admitted = deps.strict
      ? deps.strict.check(of, jobs, tx ? () => tx : outside).then(admit)
      : admit();
    const sent = admitted
      .then(() => write(of, jobs, limits, call))
      .catch((error) => {
        throw tx ? error : asPoolBusy(error, pool, 'nothing was enqueued');
      });
    const written = await inQueue(of, sent);
    deps.emitEnqueued(queue, jobs, written);
    return written;
  }

  async function write(
    of: Names,
    jobs: readonly NewJob[],
    limits: EnqueueLimits,
    call: EnqueueCall,
  ): Promise<Enqueued[]> {
    if (call.tx) return writeJobs(executor(call.tx), of, jobs, limits);
    const atOnce = async () => {
      const db = await outside();
      return untilNotLost(() => writeJobs(db, of, jobs, limits));
    };
    const inParts = () =>
      untilNotLost(() =>
        withTransaction(
          pool(),
          (client) => writeJobs(executor(client), of, jobs, limits),
          BEGIN_BOUNDED,
        ),
      );
    return gate.run(of.queue, needsTransaction(jobs) ? inParts : atOnce, (error) =>
      asLocked(error, of, observer),
    );
  }

  return enqueueMany;
}

function withHeaders(item: EnqueueItem, withContext: WithContext): EnqueueItem {
  const headers = withContext(item.options?.headers);
  return headers ? { ...item, options: { ...item.options, headers } } : item;
}
