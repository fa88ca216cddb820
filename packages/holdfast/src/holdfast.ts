/**
 * The front door: one object that knows the database and the schema, enqueues, and makes workers.
 *
 * It opens connections only when they are needed. A pool that was passed in is used and never closed.
 */
import { setTimeout } from 'node:timers/promises';
import type pg from 'pg';
import type { Access } from './api/access.js';
import { archive } from './api/act/archive.js';
import { byId } from './api/act/by-id.js';
import { deadLetters } from './api/act/dead-letters.js';
import { limits } from './api/act/limits.js';
import { MAX_PAYLOAD_LIMIT, queueSettings } from './api/act/queue-settings.js';
import { schedules } from './api/act/schedules.js';
import { type JobChanges, type UpdateChoice, update } from './api/act/update.js';
import { workflows } from './api/act/workflows.js';
import { Closing } from './api/closing.js';
import { examine } from './api/doctor/doctor.js';
import { Backpressure } from './api/enqueue/backpressure.js';
import { enqueuer } from './api/enqueue/enqueuer.js';
import { StrictTypes } from './api/enqueue/strict-types.js';
import type { Holdfast } from './api/holdfast.js';
import { type AuditPage, type AuditRequest, auditPage } from './api/look/audit.js';
import { gaugesReader } from './api/look/gauges.js';
import { looking } from './api/look/look.js';
import { runs } from './api/look/runs.js';
import { Waiting } from './api/look/wait.js';
import {
  CALL_OPTIONS,
  checkHoldfast,
  type EnqueueCall,
  type HoldfastOptions,
} from './api/options.js';
import { whileOpen } from './api/while-open.js';
import { type Enqueued, enqueuedEvents } from './enqueue/enqueue.js';
import type { Gauges } from './inspect/queue/gauges.js';
import { HoldfastError } from './job/errors/errors.js';
import { describeError } from './job/errors/failure.js';
import { invalid, shown } from './job/errors/holdfast-error.js';
import {
  checkDefinition,
  checkInteger,
  ENQUEUE_OPTIONS,
  type EnqueueOptions,
  type JobDefinition,
  type PayloadOf,
} from './job/job.js';
import { checkKnown } from './job/options/known-options.js';
import { addressOf, checkUrl, findAddress, settingsOf } from './postgres/connect/address.js';
import { boundedExecutor } from './postgres/connect/bounded.js';
import {
  adoptPool,
  type ConnectionOptions,
  closePool,
  plainPool,
  withClient,
} from './postgres/connect/pool.js';
import { behindPooler } from './postgres/connect/pooled.js';
import { checkSameDatabase } from './postgres/connect/same-database.js';
import type { Logger } from './postgres/log/log.js';
import { loggerOf } from './postgres/log/logger-of.js';
import { checkQueueName, checkSchemaName } from './postgres/names.js';
import type { Executor, Queryable } from './postgres/queryable.js';
import { type MigrationState, migrate, migrationStates, pendingSql } from './schema/migrate.js';
import { Tracing } from './tracing/tracing.js';
import type { WorkerEvent } from './worker/events.js';
import { emitterOf } from './worker/events.js';
import type { WorkerOptions } from './worker/options.js';
import { Worker } from './worker/worker.js';

export type { Holdfast };

const CLOSE_MS = 500;
const OBSERVER_MS = 5_000;
const MEET_MS = 1_000;

/** What the test kit needs of a Holdfast beside its methods. */
export interface HoldfastParts {
  readonly connection: ConnectionOptions;
  readonly schema: string;
  readonly log: Logger;
  readonly maxPayloadBytes: number;
  readonly pooler: boolean;
  /** The pool of handlers' transactions. */
  readonly pool: () => pg.Pool;
  /** Statements outside of any transaction. None waits for a lock for ever. */
  readonly outside: () => Promise<Executor>;
  /** `work` is done by `close`. */
  readonly onClose: (work: () => Promise<void>) => void;
}

const parts = new WeakMap<object, HoldfastParts>();

/** Undefined for an object that `holdfast()` has not made. */
export const partsOf = (hf: object): HoldfastParts | undefined => parts.get(hf);

/**
 * Connects to a database. Connections open when they are needed.
 * @example
 * const hf = holdfast({ connectionString: 'postgres://localhost/shop' });
 * await hf.migrate();
 */
export function holdfast(options: HoldfastOptions = {}): Holdfast {
  checkHoldfast(options);
  const { address, besidePool } = findAddress(options, process.env);
  const schema = checkSchemaName(options.schema ?? 'holdfast');
  const log = loggerOf(options);
  const tracing = options.telemetry ? new Tracing(options.telemetry) : null;
  const listeners = new Set<(event: WorkerEvent) => void>();
  const maxPayloadBytes = checkInteger(
    options.maxPayloadBytes ?? 1024 * 1024,
    'maxPayloadBytes',
    1,
    MAX_PAYLOAD_LIMIT,
  );
  checkUrl(options.listenUrl, 'listenUrl');
  /** What listenUrl does not say, such as `ssl`, is as for the other connections. */
  const direct = options.listenUrl
    ? addressOf({ ...address, connectionString: options.listenUrl })
    : null;
  const prepare = options.prepare ?? true;
  const adopted = options.pool ? adoptPool(options.pool, log) : null;
  const closing = new Closing();
  const { checkOpen, whyClosed } = closing;
  let ownPool: pg.Pool | null = null;
  const pool = () => {
    checkOpen();
    if (adopted) return adopted;
    ownPool ??= plainPool({ ...address, settings: settingsOf(options.connection ?? {}) }, 10, log);
    return ownPool;
  };
  /** Observers read on a connection of their own: a scrape must neither wait for handlers nor hold them up. */
  let observerPool: pg.Pool | null = null;
  const observer = () => {
    checkOpen();
    observerPool ??= plainPool({ ...address, queryTimeoutMs: OBSERVER_MS }, 1, log);
    return observerPool;
  };
  /**
   * Rejects if the pool and the connection lead to different databases. Asked once, before what uses both; while the
   * pool has nobody to ask, those who look are not kept waiting.
   */
  let meeting: Promise<void> | null = null;
  const meet = async () => {
    if (!besidePool) return;
    meeting ??= checkSameDatabase(observer(), pool(), 'The pool', 'nothing was read');
    try {
      await Promise.race([meeting, setTimeout(MEET_MS, undefined, { ref: false })]);
    } catch (error) {
      meeting = null;
      if (error instanceof HoldfastError) throw error;
    }
  };
  const names = (queue: string) => ({ schema, queue: checkQueueName(queue) });
  const pooled = async () => options.pooler ?? behindPooler(pool());

  /** Statements outside of any transaction. None waits for a lock for ever: it would keep its connection from others. */
  const outside = async () => boundedExecutor(pool(), { prepare: prepare && !(await pooled()) });
  const backpressure = new Backpressure(outside);
  const strict = options.strictTypes ? new StrictTypes() : null;
  const { emit } = emitterOf(null, listeners, (error) =>
    log.error({ err: describeError(error).message }, 'an observer failed'),
  );
  const enqueueMany = enqueuer({
    ...{
      names,
      maxPayloadBytes,
      tracing,
      checkOpen,
      pool,
      observer,
      outside,
      backpressure,
      strict,
    },
    emitEnqueued: (...written) => {
      if (listeners.size > 0) for (const event of enqueuedEvents(...written)) emit(event);
    },
  });

  const onClose: (() => Promise<void>)[] = [];
  const access: Access = { schema, connection: address, log, maxPayloadBytes, pool, names };
  const waiting = new Waiting(access);
  const readGauges = gaugesReader(observer, schema, log);

  /** Closes what was opened here, for good. A handler that is stuck in a query is cut off after a second. */
  async function shut(): Promise<void> {
    waiting.close();
    backpressure.close();
    const pools = [ownPool, observerPool];
    ownPool = null;
    observerPool = null;
    await Promise.all([
      ...pools.map((pool) => pool && closePool(pool, CLOSE_MS)),
      ...onClose.splice(0).map((work) => work()),
    ]);
  }
  const close = () => closing.close(shut);

  const methods = {
    schema,
    ...looking(access),
    ...runs(access),
    ...byId(access),
    ...queueSettings(access),
    ...schedules(access),
    ...limits(access),
    ...workflows(access),
    deadLetters: deadLetters(access),
    archive: archive(access),

    async enqueue<Input>(
      job: JobDefinition<Input, unknown>,
      payload: PayloadOf<Input>,
      enqueueOptions: EnqueueOptions & EnqueueCall = {},
    ): Promise<Enqueued> {
      const known = { ...ENQUEUE_OPTIONS, ...CALL_OPTIONS };
      checkKnown(enqueueOptions, known, 'enqueue()', 'Nothing was enqueued.');
      checkDefinition(job, 'The first argument of enqueue()', 'Nothing was enqueued.');
      const { tx, onMismatch, onFull, fullTimeout, ...rest } = enqueueOptions;
      const given = 'tx' in enqueueOptions && { tx: tx as Queryable };
      const call: EnqueueCall = {
        ...given,
        ...(onMismatch !== undefined && { onMismatch }),
        ...(onFull !== undefined && { onFull }),
        ...(fullTimeout !== undefined && { fullTimeout }),
      };
      const [enqueued] = await enqueueMany([job.item(payload, rest)], call);
      return enqueued as Enqueued;
    },

    enqueueMany,

    worker(workerOptions: WorkerOptions = {}): Worker {
      closing.checkWorkers();
      const deps = {
        ...{ address, direct, besidePool, pool: pool(), schema, enter: closing.enter },
        ...{
          log,
          maxPayloadBytes,
          prepare,
          pooler: options.pooler ?? null,
          tracing,
          listeners,
          strict,
        },
      };
      return new Worker(deps, workerOptions);
    },

    migrate: async (): Promise<MigrationState[]> =>
      withClient(pool(), (client) => migrate(client, schema)),
    migrationStates: async (): Promise<MigrationState[]> => migrationStates(pool(), schema),
    pendingSql: async (): Promise<string> => pendingSql(pool(), schema),

    update: <Input>(id: string, changes: JobChanges<Input>, choice?: UpdateChoice<Input>) =>
      update(access, id, changes, choice),
    wait: waiting.wait,
    audit: (request?: AuditRequest): Promise<AuditPage> => auditPage(access, request),
    doctor: async () => {
      checkOpen();
      await meet();
      return examine(access);
    },

    onEvent(listener: (event: WorkerEvent) => void): () => void {
      if (typeof listener !== 'function')
        throw invalid(`onEvent() takes a function, not ${shown(listener)}. Nothing was added.`);
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    gauges: async (): Promise<Gauges> => {
      await meet();
      return readGauges();
    },
  };
  const hf: Holdfast = {
    ...whileOpen(methods, whyClosed, ['worker', 'onEvent']),
    close,
    [Symbol.asyncDispose]: close,
  };
  parts.set(hf, {
    ...{ connection: address, schema, log, maxPayloadBytes, pool, outside },
    pooler: options.pooler === true,
    onClose: (work) => void onClose.push(work),
  });
  return hf;
}
