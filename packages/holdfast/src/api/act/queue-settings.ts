/** What a program sets on queues: made, configured, paused, resumed and dropped. */

import type pg from 'pg';
import { setNotify } from '../../fleet/wake.js';
import { inForce, readLimits } from '../../inspect/queue/limits.js';
import { listQueues, type QueueRow } from '../../inspect/queue/queues.js';
import { hookOf } from '../../job/dead-job.js';
import { HoldfastError } from '../../job/errors/holdfast-error.js';
import { checkDefinition, checkInteger, type Teller } from '../../job/job.js';
import { checkLimit, type LimitOptions } from '../../job/limit.js';
import { type Duration, durationMs } from '../../job/options/duration.js';
import { checkFlag, checkKnown, defined, type Known } from '../../job/options/known-options.js';
import type { QueueName } from '../../job/queue-name.js';
import type { ReadPolicy, ReadPolicyOptions } from '../../job/turns.js';
import { declareHooks, queueHook } from '../../operate/dead-letter-hooks.js';
import { putLimit } from '../../operate/limits.js';
import { ACT_OPTIONS, type ActOptions, checkActOptions } from '../../operate/options.js';
import { configure, lockQueue, type QueueSettings } from '../../operate/queue.js';
import { withClient } from '../../postgres/connect/pool.js';
import type { Names } from '../../postgres/names.js';
import { type Executor, engineExecutor } from '../../postgres/queryable.js';
import { dropQueue, type QueueLoss } from '../../schema/drop-queue.js';
import { createQueue } from '../../schema/queue.js';
import type { Access } from '../access.js';
import { recordOf, together, turnQueue } from './acts.js';
import { withoutKey } from './limits.js';
import { PAUSE_OPTIONS, type PauseOptions, partOf } from './pause.js';

/**
 * Options of a new queue.
 * @example await hf.createQueue('orders', { ordering: 'key', limit: { concurrency: 50 } });
 */
export type CreateQueueOptions = ReadPolicyOptions & {
  /** How many of its jobs run at once and start in a time, across the fleet. Default: no limit. */
  readonly limit?: LimitOptions;
  /** Enqueued for each dead letter whose own definition names no such job. Default: none. */
  readonly onDeadLetter?: Teller<unknown>;
};

/**
 * Settings of a queue. What you leave out stays as it is.
 * @example await hf.configureQueue('inbox', { archiveRetention: '7d', maxPending: 100_000 });
 */
export type QueueOptions = ReadPolicyOptions & {
  /** Whether an enqueue wakes idle workers. Default true. */
  readonly notify?: boolean;
  /** The largest payload that the queue takes, in bytes: at most 64 MiB. Default 1 MiB. */
  readonly maxPayloadBytes?: number;
  /** How long an idempotency key is remembered. Default 7 days. */
  readonly idempotencyRetention?: Duration;
  /** How long finished jobs are kept; 0 keeps none. Default 7 days. */
  readonly archiveRetention?: Duration;
  /** How long the markers of `ctx.once()` are kept. Default 7 days. */
  readonly effectRetention?: Duration;
  /** How long the audit keeps acts on this queue. Default 90 days. */
  readonly auditRetention?: Duration;
  /** A job that waits this long gets a share of the claims beside more urgent ones; `'off'`: never. Default 10 minutes. */
  readonly ageAfter?: Duration | 'off';
  /** Enqueues are refused, or wait, while about so many jobs wait. Default `'off'`: never. */
  readonly maxPending?: number | 'off';
  /** How many of its jobs run at once and start in a time, across the fleet; null: no limit. Default: no limit. */
  readonly limit?: LimitOptions | null;
  /** Enqueued for each dead letter whose own definition names no such job; null: none. Default: none. */
  readonly onDeadLetter?: Teller<unknown> | null;
};

const NEW_QUEUE_OPTIONS = {
  ...{ ordering: true, deadLetters: true, perKey: true, perGroup: true, fair: true, weights: true },
  ...{ limit: true, onDeadLetter: true },
} as const satisfies Known<CreateQueueOptions>;
const QUEUE_OPTIONS = {
  ...{ ...NEW_QUEUE_OPTIONS, notify: true, maxPayloadBytes: true, ageAfter: true },
  ...{ idempotencyRetention: true, archiveRetention: true, effectRetention: true },
  ...{ auditRetention: true, maxPending: true },
} as const satisfies Known<QueueOptions>;

export const MAX_PAYLOAD_LIMIT = 64 * 1024 * 1024;
const MAX_PENDING_LIMIT = 10_000_000;
const MAX_RETENTION_MS = 3650 * 86_400_000;

const unknownQueue = (queue: string) =>
  new HoldfastError('QUEUE_UNKNOWN', `There is no queue "${queue}"; nothing was set.`);

function settingsOf(settings: QueueOptions): QueueSettings {
  const time = (value: Duration | undefined, what: string, min = 1000) =>
    value === undefined ? undefined : durationMs(value, what, { min, max: MAX_RETENTION_MS });
  const { maxPayloadBytes: bytes } = settings;
  const { ordering, deadLetters, perKey, perGroup, fair, weights } = settings;
  return {
    maxPayloadBytes:
      bytes === undefined
        ? undefined
        : checkInteger(bytes, 'maxPayloadBytes', 1, MAX_PAYLOAD_LIMIT),
    idempotencyRetentionMs: time(settings.idempotencyRetention, 'idempotencyRetention'),
    archiveRetentionMs: time(settings.archiveRetention, 'archiveRetention', 0),
    effectRetentionMs: time(settings.effectRetention, 'effectRetention'),
    auditRetentionMs: time(settings.auditRetention, 'auditRetention'),
    ageAfterMs:
      settings.ageAfter === 'off' ? 0 : time(settings.ageAfter, `ageAfter, unless it is 'off',`),
    maxPending: pendingOf(settings.maxPending),
    ...(defined({ ordering, deadLetters, perKey, perGroup, fair, weights }) as ReadPolicyOptions),
  };
}

function pendingOf(most: number | 'off' | undefined): number | undefined {
  if (most === undefined) return undefined;
  if (most === 'off') return 0;
  return checkInteger(most, `maxPending, unless it is 'off',`, 1, MAX_PENDING_LIMIT);
}

const limitOf = (queue: string, limit: LimitOptions | null | undefined) =>
  limit == null ? null : checkLimit(withoutKey(limit), `Queue "${queue}"`, 'Nothing was set.');

/** In a transaction with what else is set. Returns it for the audit, as from what to what, if it has changed. */
async function setHook(db: Executor, names: Names, given: QueueOptions['onDeadLetter']) {
  if (given === undefined) return null;
  const where = `queue "${names.queue}"`;
  if (given !== null) checkDefinition(given, `onDeadLetter of ${where}`, 'Nothing was set.');
  const hook = given && hookOf(given, where, 'Nothing was set.');
  if (hook && !(await rowOf(db, { ...names, queue: hook.queue }))) throw unknownQueue(hook.queue);
  const from = await queueHook(db, names);
  await declareHooks(db, names, [{ type: null, hook }]);
  const to = hook && { queue: hook.queue, type: hook.type };
  return JSON.stringify(from) === JSON.stringify(to) ? null : { from, to };
}

const limitInForce = async (db: Executor, names: Names) => {
  const rows = await readLimits(db, names, names.queue);
  const row = rows.find(({ type }) => type === null);
  return row ? inForce(row) : null;
};

const rowOf = async (db: Executor, { schema, queue }: Names) =>
  (await listQueues(db, schema)).find(({ name }) => name === queue);

/** Settings that have changed, from what to what. */
function changesOf(before: QueueRow, after: QueueRow, notify: boolean | undefined): object {
  const names = Object.keys(after) as (keyof QueueRow)[];
  const passing = new Set<keyof QueueRow>(['maintainedAt', 'waiting']);
  const same = (name: keyof QueueRow) =>
    JSON.stringify(before[name]) === JSON.stringify(after[name]) || passing.has(name);
  const changed = names.filter((name) => !same(name));
  const pairs = changed.map((name) => [name, { from: before[name], to: after[name] }]);
  return { ...Object.fromEntries(pairs), ...(notify !== undefined && { notify }) };
}

/** Checked, set and recorded in one transaction; returns the settings before and after. */
export async function setQueue(
  pool: pg.Pool,
  names: Names,
  settings: QueueOptions,
  options: ActOptions = {},
): Promise<{ readonly before: QueueRow; readonly after: QueueRow }> {
  checkKnown(settings, QUEUE_OPTIONS, 'configureQueue()', 'Nothing was set.');
  const wanted = settingsOf(settings);
  const notify = checkFlag(settings.notify, 'notify', 'Nothing was set.');
  const limit = limitOf(names.queue, settings.limit);
  return together(pool, async (db, client) => {
    if (!(await rowOf(db, names))) throw unknownQueue(names.queue);
    // The row of the limit is locked before that of the queue, as whoever sets only a limit does.
    const from = await limitInForce(db, names);
    const limited =
      settings.limit !== undefined && (await putLimit(db, names, 'declare', { type: null, limit }));
    // What is left out stays as it is now, and not as it was before somebody else set it.
    await lockQueue(db, names);
    const before = await rowOf(db, names);
    if (!before || !(await configure(db, names, wanted, before as ReadPolicy)))
      throw unknownQueue(names.queue);
    if (notify !== undefined) await setNotify(client, names, notify);
    const hook = await setHook(db, names, settings.onDeadLetter);
    const after = (await rowOf(db, names)) as QueueRow;
    const changes = {
      ...changesOf(before, after, notify),
      ...(limited && { limit: { from, to: await limitInForce(db, names) } }),
      ...(hook && { onDeadLetter: hook }),
    };
    const act = { act: 'set_queue', queue: names.queue, changes } as const;
    if (Object.keys(changes).length > 0) await recordOf(act, options)?.add(db, names);
    return { before, after };
  });
}

/** False: it existed already. */
export async function makeQueue(
  pool: pg.Pool,
  names: Names,
  settings: CreateQueueOptions,
  options: ActOptions = {},
): Promise<boolean> {
  checkKnown(settings, NEW_QUEUE_OPTIONS, 'createQueue()', 'No queue was made.');
  const { schema, queue } = names;
  const { limit: given, onDeadLetter, ...rest } = settings;
  const limit = limitOf(queue, given);
  return withClient(pool, (client) =>
    createQueue(client, schema, queue, rest, async () => {
      const db = engineExecutor(client, { prepare: false });
      if (limit) await putLimit(db, names, 'declare', { type: null, limit });
      const hook = await setHook(db, names, onDeadLetter);
      const set = { ...settings, ...(hook && { onDeadLetter: hook.to }) };
      const changes = Object.keys(set).length > 0 ? set : null;
      const act = { act: 'create_queue', queue, changes } as const;
      await recordOf(act, options)?.add(db, names);
    }),
  );
}

/** Rejects with QUEUE_BUSY while there are jobs in it, or a worker serves it. */
export function removeQueue(
  pool: pg.Pool,
  { schema, queue }: Names,
  options: ActOptions = {},
): Promise<QueueLoss> {
  return withClient(pool, (client) =>
    dropQueue(client, schema, queue, async (loss) => {
      const act = { act: 'drop_queue', queue, changes: { lost: loss } } as const;
      const db = engineExecutor(client, { prepare: false });
      await recordOf(act, options)?.add(db, { schema, queue: 'inbox' });
    }),
  );
}

export function queueSettings(access: Access) {
  const { pool, names } = access;
  const checked = (options: ActOptions, where: string) => {
    checkKnown(options, ACT_OPTIONS, where, 'Nothing was done.');
    return checkActOptions(options);
  };

  async function turn(queue: string, paused: boolean, options: PauseOptions): Promise<void> {
    checkKnown(options, PAUSE_OPTIONS, paused ? 'pause()' : 'resume()', 'Nothing was done.');
    checkActOptions(options);
    const part = partOf(options);
    if ((await turnQueue(pool(), names(queue), paused, options, part)) === null)
      throw unknownQueue(queue);
  }

  return {
    /**
     * Creates a queue beside `inbox`. Returns false, and changes nothing, if it exists already.
     * @example await hf.createQueue('orders', { ordering: 'key' });
     */
    createQueue: async (
      queue: QueueName,
      settings: CreateQueueOptions = {},
      options: ActOptions = {},
    ): Promise<boolean> =>
      makeQueue(pool(), names(queue), settings, checked(options, 'createQueue()')),

    /**
     * Changes settings of a queue. What you leave out stays as it is.
     * @example await hf.configureQueue('inbox', { archiveRetention: '30d' });
     */
    async configureQueue(
      queue: QueueName,
      settings: QueueOptions,
      options: ActOptions = {},
    ): Promise<void> {
      await setQueue(pool(), names(queue), settings, checked(options, 'configureQueue()'));
    },

    /**
     * Deletes an idle queue with its archive, keys and effect markers; returns how many. QUEUE_BUSY: it is in use.
     * @example await hf.dropQueue('orders', { reason: 'moved to inbox' });
     */
    dropQueue: async (queue: QueueName, options: ActOptions = {}): Promise<QueueLoss> =>
      removeQueue(pool(), names(queue), checked(options, 'dropQueue()')),

    /**
     * Stops claims of the queue, or of one type or key of it. Enqueues go on. Default `inbox`.
     * @example await hf.pause('inbox', { type: 'send_receipt' });
     */
    pause: async (queue: QueueName = 'inbox', options: PauseOptions = {}): Promise<void> =>
      turn(queue, true, options),
    /**
     * Ends a pause. A type or key that was paused by itself stays paused when you resume its queue.
     * @example await hf.resume('inbox', { type: 'send_receipt' });
     */
    resume: async (queue: QueueName = 'inbox', options: PauseOptions = {}): Promise<void> =>
      turn(queue, false, options),
  };
}
