/**
 * Limits of job types and queues: listed with what is used of them, set by an operator beside what code declares,
 * reset to it, and removed. Each act is one transaction with its row in the audit.
 */

import type pg from 'pg';
import {
  declaredIn,
  dueOf,
  dueUnder,
  inForce,
  jobsOf,
  type LimitRow,
  limitStates,
  rateLine,
  readLimits,
} from '../../inspect/queue/limits.js';
import { listQueues } from '../../inspect/queue/queues.js';
import { HoldfastError, invalid } from '../../job/errors/holdfast-error.js';
import { checkType } from '../../job/key.js';
import { checkLimit, type Limit, type LimitOptions, type RateOptions } from '../../job/limit.js';
import { checkKnown, checkNamed, type Known } from '../../job/options/known-options.js';
import type { QueueName } from '../../job/queue-name.js';
import { type LimitAct, putLimit } from '../../operate/limits.js';
import { ACT_OPTIONS, type ActOptions, checkActOptions } from '../../operate/options.js';
import { inQueue } from '../../postgres/in-queue.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { type Access, ask } from '../access.js';
import { recordOf, together } from './acts.js';

/** What is limited: a type of a queue, or without a type the whole queue. */
export interface LimitOf {
  /** Default `inbox`. */
  readonly queue?: QueueName;
  /** Default: all types of the queue together. */
  readonly type?: string;
}

const OF = { queue: true, type: true } as const satisfies Known<LimitOf>;

/** A limit in force, and how much of it is used. */
export interface LimitView {
  readonly queue: QueueName;
  /** Null: all types of the queue together. */
  readonly type: string | null;
  /** In force. */
  readonly concurrency: number | null;
  /** In force. */
  readonly rate: Limit['rate'];
  /** Each key of the rate has it for itself. */
  readonly keyed: boolean;
  /** What code declares; null: nothing. */
  readonly declared: Limit | null;
  /** What is in force was set by an operator. */
  readonly overridden: boolean;
  /** So many jobs hold a permit. */
  readonly running: number;
  /** So many due jobs wait that it holds for; of a long line at least 10,000. */
  readonly waiting: number;
  /** Until its rate has let all of them start, if nothing more comes; null: it has no rate, or nothing waits for it. */
  readonly emptyInMs: number | null;
  /** In the last minute more jobs became due than its rate lets start: the line never ends. */
  readonly grows: boolean;
  readonly updatedAt: Date;
}

/** All limits, of one queue or of all, with what is used of them. */
export async function limitViews(
  db: Executor,
  schema: string,
  queue: string | null,
): Promise<LimitView[]> {
  const rows = await readLimits(db, { schema, queue: 'inbox' }, queue);
  const queues = rows.length === 0 ? [] : await listQueues(db, schema);
  const views: LimitView[] = [];
  for (const name of new Set(rows.map((row) => row.queue))) {
    const names = { schema, queue: name };
    const ofQueue = rows.filter((one) => one.queue === name);
    const keyed = queues.some((one) => one.name === name && one.ordering !== 'none');
    const states = await limitStates(db, names);
    const due = await dueUnder(db, names, ofQueue, keyed);
    for (const row of ofQueue) {
      const { type, keyed, overridden } = row;
      const { concurrency = null, rate = null } = inForce(row) ?? {};
      const line = rateLine(row, dueOf(row, due, ofQueue));
      views.push({
        ...{ queue: name, type, concurrency, rate, keyed, overridden, declared: declaredIn(row) },
        running: states.get(type)?.running ?? 0,
        waiting: jobsOf(dueOf(row, due, concurrency === null ? ofQueue : undefined)),
        ...{ emptyInMs: line?.emptyInMs ?? null, grows: line?.grows ?? false },
        updatedAt: new Date(row.updatedAt),
      });
    }
  }
  return views;
}

export interface LimitChange {
  readonly before: Limit | null;
  readonly after: Limit | null;
  /** What is in force now was set by an operator. */
  readonly overridden: boolean;
}

const ACTS = { set: 'set_limit', reset: 'reset_limit', remove: 'remove_limit' } as const;

const rowOf = async (db: Executor, names: Names, type: string | null) =>
  (await readLimits(db, names, names.queue)).find((row) => row.type === type);

/** `limit` gets what is in force, and returns what shall be. */
export function changeLimit(
  pool: pg.Pool,
  names: Names,
  act: Exclude<LimitAct, 'declare'>,
  {
    type,
    limit,
  }: { readonly type: string | null; readonly limit: (now: Limit | null) => Limit | null },
  options: ActOptions = {},
): Promise<LimitChange> {
  const change = together(pool, async (db) => {
    const found: LimitRow | undefined = await rowOf(db, names, type);
    const before = found ? inForce(found) : null;
    if (!found && act !== 'set') throw unknownLimit(names, type);
    const changed = await putLimit(db, names, act, { type, limit: limit(before) });
    const left = await rowOf(db, names, type);
    const after = left ? inForce(left) : null;
    const changes = { ...(type !== null && { type }), from: before, to: after };
    const record = { act: ACTS[act], queue: names.queue, changes } as const;
    if (changed) await recordOf(record, options)?.add(db, names);
    return { before, after, overridden: left?.overridden ?? false };
  });
  return inQueue(names, change);
}

function unknownLimit({ queue }: Names, type: string | null): HoldfastError {
  const what = type === null ? `Queue "${queue}"` : `Job "${type}" of queue "${queue}"`;
  return new HoldfastError(
    'LIMIT_UNKNOWN',
    `${what} has no limit; nothing was done. holdfast limits ls and hf.limits.list() have those that there are.`,
  );
}

/** What refuses the name of a type or a key says that nothing was enqueued. */
export function named(check: () => string): string {
  try {
    return check();
  } catch (error) {
    const { code, message } = error as HoldfastError;
    const said = message.replace('nothing was enqueued', 'nothing was done');
    throw new HoldfastError(code, said, { cause: error });
  }
}

export const typeOf = (type: string) => named(() => checkType(type));

/** A limit without anything is none. */
export const NO_LIMIT: Limit = { concurrency: null, rate: null };

export function limits(access: Access) {
  function checked(of: LimitOf, options: ActOptions, where: string) {
    checkKnown(of ?? null, OF, where, 'Nothing was done.');
    checkNamed(of, ['type', 'queue'], 'more than you meant');
    checkKnown(options, ACT_OPTIONS, where, 'Nothing was done.');
    const names = access.names(of.queue ?? 'inbox');
    const type = of.type === undefined ? null : typeOf(of.type);
    return { names, type, options: checkActOptions(options) };
  }

  async function undo(act: 'reset' | 'remove', of: LimitOf, given: ActOptions): Promise<void> {
    const { names, type, options } = checked(of, given, `limits.${act}()`);
    await changeLimit(access.pool(), names, act, { type, limit: () => null }, options);
  }

  return {
    /** Lists and sets limits at run time. */
    limits: {
      /**
       * The limits of one queue, or of all.
       * @example const limits = await hf.limits.list({ queue: 'inbox' });
       */
      async list(of: Pick<LimitOf, 'queue'> = {}): Promise<LimitView[]> {
        checkKnown(of, { queue: true }, 'limits.list()', 'Nothing was read.');
        const queue = of.queue === undefined ? null : access.names(of.queue).queue;
        return ask(access, (db) => limitViews(db, access.schema, queue));
      },

      /**
       * Sets a limit at once; it outlives deploys until you reset it. What you leave out is unlimited; null: all is.
       * @example await hf.limits.set({ type: 'send_receipt' }, { rate: { limit: 50, per: '1m' } });
       */
      async set(of: LimitOf, limit: LimitOptions | null, given: ActOptions = {}): Promise<void> {
        const { names, type, options } = checked(of, given, 'limits.set()');
        const where = type === null ? `Queue "${names.queue}"` : `Job "${type}"`;
        const wanted =
          limit === null ? NO_LIMIT : checkLimit(withoutKey(limit), where, 'No limit was set.');
        await changeLimit(access.pool(), names, 'set', { type, limit: () => wanted }, options);
      },

      /**
       * Puts the limit that code declares back into force. Rejects with LIMIT_UNKNOWN if there is none.
       * @example await hf.limits.reset({ type: 'send_receipt' });
       */
      reset: (of: LimitOf, options: ActOptions = {}): Promise<void> => undo('reset', of, options),

      /**
       * Deletes a limit. If code declares it, the next worker that starts sets it again.
       * @example await hf.limits.remove({ type: 'send_receipt' });
       */
      remove: (of: LimitOf, options: ActOptions = {}): Promise<void> => undo('remove', of, options),
    },
  };
}

/** Keys come from payloads, and what makes them from code. */
export function withoutKey(limit: LimitOptions): LimitOptions {
  if ((limit?.rate as RateOptions & { key?: unknown })?.key === undefined) return limit;
  throw invalid(
    'limit.rate.key belongs to the definition of a job, which knows its payloads: job(name, { limit }). No limit was set.',
  );
}
