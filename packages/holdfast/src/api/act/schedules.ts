/**
 * Schedules of a program: made one by one at run time, or declared as a set; listed, paused, resumed, run, deleted. A name
 * of somebody else's schedule is refused, so two programs cannot undo each other's work.
 */

import { checkTx } from '../../enqueue/transaction.js';
import { HoldfastError, invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkInteger } from '../../job/job.js';
import {
  checkFlag,
  checkKnown,
  isPlainObject,
  type Known,
} from '../../job/options/known-options.js';
import type { QueueName } from '../../job/queue-name.js';
import { ACT_OPTIONS, type ActOptions, checkActOptions } from '../../operate/options.js';
import { untilNotLost } from '../../postgres/connect/backoff.js';
import { withTransaction } from '../../postgres/connect/pool.js';
import { type Executor, executor, type Transaction } from '../../postgres/queryable.js';
import type { CatchUp } from '../../schedule/due.js';
import { findSchedule, readSchedules, type ScheduleRow } from '../../schedule/list.js';
import { type RanNow, unknownSchedule } from '../../schedule/operate.js';
import {
  checkSchedule,
  checkScheduleName,
  type NewSchedule,
  type Overlap,
  type ScheduleOptions,
} from '../../schedule/options.js';
import { putSchedules, type WrittenSchedules } from '../../schedule/write.js';
import { type Access, ask } from '../access.js';
import { type Dated, dated } from '../look/views.js';
import { ACTING, actOnSchedule } from './acts.js';

/** Where a schedule is written. */
export interface ScheduleCall {
  /** Your transaction: anything with `query(text, params)`, or an adapter. Default: one of its own. */
  readonly tx?: Transaction;
}

/** What a person does to a schedule leaves a row in the audit. */
export interface ScheduleAct extends ScheduleCall, ActOptions {}

const CALL = { tx: true } as const satisfies Known<ScheduleCall>;
const ACT = { ...CALL, ...ACT_OPTIONS } as const satisfies Known<ScheduleAct>;

/** Which schedules to list. What you leave out does not filter. */
export interface SchedulesRequest {
  /** Only schedules of this queue. Default: all. */
  readonly queue?: QueueName;
  /** Only schedules that this part of the program declared. Default: all. */
  readonly declaredBy?: string;
  /** Only paused ones, or only those that are not. Default: all. */
  readonly paused?: boolean;
  /** Only names that begin so, such as `tenant:42:`. Default: all. */
  readonly prefix?: string;
  /** The `next` of the page before. Default: from the first on. */
  readonly after?: string;
  /** 1 to 1,000; default 100. */
  readonly limit?: number;
}

const REQUEST = {
  ...{ queue: true, declaredBy: true, paused: true, prefix: true, after: true, limit: true },
} as const satisfies Known<SchedulesRequest>;

/** A page of schedules, by name. */
export interface SchedulesPage {
  readonly schedules: readonly Schedule[];
  /** For `after`; null: this is the last page. */
  readonly next: string | null;
}

const TIMES = ['nextInstant', 'nextAt', 'lastInstant', 'lastAt', 'createdAt', 'updatedAt'] as const;

/** A schedule as it is stored. */
export interface Schedule
  extends Dated<
    Omit<ScheduleRow, 'now' | 'payload' | 'catchUp' | 'overlap'>,
    (typeof TIMES)[number]
  > {
  readonly payload: unknown;
  readonly catchUp: CatchUp;
  readonly overlap: Overlap;
  /** Null: it has an interval. */
  readonly cron: string | null;
  /** Its interval; null: it has a cron line. */
  readonly everyMs: number | null;
  /** The part of the program that declared it; null: it was made by itself. */
  readonly declaredBy: string | null;
  /** The time of its next tick; null: there is none. */
  readonly nextInstant: Date | null;
  /** When the job of that tick is written: later by the jitter. */
  readonly nextAt: Date | null;
  /** The time of its last tick; null: none yet. */
  readonly lastInstant: Date | null;
  /** When the job of its last tick was written. */
  readonly lastAt: Date | null;
  /** The id of its last job; null: none yet. */
  readonly lastJob: string | null;
  /** How many jobs it has written. */
  readonly ticks: number;
  /** Ticks without a job, because the job before was not over. */
  readonly skipped: number;
  /** Ticks that nobody was there to write. */
  readonly missed: number;
}

/** By name, each with a payload of its own type. */
export type ScheduleSet<Payloads> = {
  readonly [Name in keyof Payloads]: ScheduleOptions<Payloads[Name]>;
};

const MAX_SET = 10_000;

export const scheduleView = ({ now, ...row }: ScheduleRow): Schedule => ({
  ...dated(row, TIMES),
  payload: JSON.parse(row.payload),
  catchUp: row.catchUp as CatchUp,
  overlap: row.overlap as Overlap,
});

function checkDeclarer(declarer: unknown): string {
  try {
    return checkScheduleName(declarer);
  } catch (cause) {
    const message = `${shown(declarer)} cannot name who declares schedules. Nothing was changed. Write a name such as "billing".`;
    throw new HoldfastError('NAME_INVALID', message, { cause });
  }
}

export function schedules(access: Access) {
  const names = access.names('inbox');

  /** In the caller's transaction, or in one of its own. */
  async function inTransaction<Value>(
    call: ScheduleCall,
    work: (db: Executor) => Promise<Value>,
    begin?: string,
  ): Promise<Value> {
    if ('tx' in call) {
      checkTx(call.tx);
      return work(executor(call.tx as Transaction));
    }
    return untilNotLost(() =>
      withTransaction(access.pool(), (client) => work(executor(client)), begin),
    );
  }

  async function act<Verb extends Parameters<typeof actOnSchedule>[2]>(
    verb: Verb,
    where: string,
    name: string,
    call: ScheduleAct,
  ) {
    checkKnown(call, ACT, `schedules.${where}()`, 'Nothing was changed.');
    const { tx, ...options } = call;
    const checked = checkScheduleName(name, 'Nothing was done.');
    checkActOptions(options);
    const work = (db: Executor) => actOnSchedule(db, access.schema, verb, checked, options);
    return inTransaction(call, work, ACTING);
  }

  async function schedule<Input>(
    name: string,
    options: ScheduleOptions<Input> & ScheduleCall,
  ): Promise<boolean> {
    checkIsObject(name, options);
    const { tx, ...rest } = options ?? {};
    const given: ScheduleCall = options && 'tx' in options ? { tx: tx as never } : {};
    const checked = await checkSchedule(
      name,
      rest as ScheduleOptions<Input>,
      access.maxPayloadBytes,
    );
    const put = await inTransaction(given, (db) => putSchedules(db, names, null, [checked]));
    return put.made.length === 1;
  }

  async function declare<Payloads>(
    declarer: string,
    set: ScheduleSet<Payloads>,
    call: ScheduleCall = {},
  ): Promise<WrittenSchedules> {
    checkKnown(call, CALL, 'schedules.declare()', 'Nothing was changed.');
    const who = checkDeclarer(declarer);
    // What is not declared is deleted: a set that was forgotten must not be taken for an empty one.
    if (!isPlainObject(set)) {
      throw invalid(
        `The second argument of schedules.declare() must be an object of schedules by name, not ${shown(set)}. ` +
          `Nothing was changed. Pass {} to delete all that "${who}" declared.`,
      );
    }
    const entries = Object.entries(set) as [string, ScheduleOptions<unknown>][];
    checkInteger(entries.length, 'The number of schedules in one declaration', 0, MAX_SET);
    const checked: NewSchedule[] = [];
    for (const [name, options] of entries)
      checked.push(await checkSchedule(name, options, access.maxPayloadBytes));
    return inTransaction(call, (db) => putSchedules(db, names, who, checked));
  }

  return {
    /**
     * Makes a schedule, or changes the one of that name. Returns true if it is new.
     * @example
     * const payload = { orderId: 9182 };
     * await hf.schedule('digest', { cron: '0 9 * * *', timezone: 'Europe/Berlin', job: sendReceipt, payload });
     */
    schedule,
    /** Declares, lists, pauses, runs and deletes schedules. */
    schedules: {
      /**
       * Declares all schedules of a part of your program, in one transaction: makes or changes them, and deletes those
       * that it declared before and does not any more. Call it at every start.
       * @example
       * await hf.schedules.declare('billing', {
       *   receipts: { every: '10m', job: sendReceipt, payload: { orderId: 9182 } },
       * });
       */
      declare,

      /**
       * A page of schedules, by name.
       * @example const { schedules } = await hf.schedules.list({ prefix: 'tenant:42:' });
       */
      async list(request: SchedulesRequest = {}): Promise<SchedulesPage> {
        checkKnown(request, REQUEST, 'schedules.list()', 'Nothing was read.');
        const { after = null, limit = 100, ...filter } = request;
        checkFlag(filter.paused, 'paused', 'Nothing was read.');
        const most = checkInteger(limit, 'limit', 1, 1_000);
        const page = { after, limit: most + 1 };
        const rows = await ask(access, (db) => readSchedules(db, names, filter, page));
        const shownRows = rows.slice(0, most);
        const next = rows.length > most ? (shownRows.at(-1)?.name ?? null) : null;
        return { schedules: shownRows.map(scheduleView), next };
      },

      /**
       * One schedule. Rejects with SCHEDULE_UNKNOWN if there is none.
       * @example const { nextAt } = await hf.schedules.get('digest');
       */
      async get(name: string): Promise<Schedule> {
        const checked = checkScheduleName(name, 'Nothing was read.');
        const row = await ask(access, (db) => findSchedule(db, names, checked));
        if (!row) throw unknownSchedule(name);
        return scheduleView(row);
      },

      /**
       * Stops its ticks until you resume it. A declaration does not resume it.
       * @example await hf.schedules.pause('digest', { reason: 'the mail server moves' });
       */
      async pause(name: string, call: ScheduleAct = {}): Promise<void> {
        await act('pause_schedule', 'pause', name, call);
      },
      /**
       * Ends a pause: it goes on with its next tick from now.
       * @example await hf.schedules.resume('digest');
       */
      async resume(name: string, call: ScheduleAct = {}): Promise<void> {
        await act('resume_schedule', 'resume', name, call);
      },
      /**
       * Deletes it; its jobs stay. If it is declared, the next declaration makes it again.
       * @example await hf.schedules.delete('digest');
       */
      async delete(name: string, call: ScheduleAct = {}): Promise<void> {
        await act('delete_schedule', 'delete', name, call);
      },
      /**
       * Enqueues its job now. Its next tick stays as it is.
       * @example const { id } = await hf.schedules.runNow('digest');
       */
      async runNow(name: string, call: ScheduleAct = {}): Promise<RanNow> {
        const { id, skipped } = await act('run_schedule', 'runNow', name, call);
        return { id, skipped };
      },
    },
  };
}

/** Others have the cron line as an argument of its own. */
function checkIsObject(name: string, options: unknown): void {
  checkScheduleName(name);
  if (options === undefined || (typeof options === 'object' && !Array.isArray(options))) return;
  throw invalid(
    `The options of schedule() must be an object, not ${shown(options)}. No schedule was made. ` +
      "Call hf.schedule('name', { cron: '0 9 * * *', job, payload }).",
  );
}
