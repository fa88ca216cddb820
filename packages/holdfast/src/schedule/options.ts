/** The options of a schedule. Invalid ones are rejected with the reason, before anything is sent. */
import { HoldfastError } from '../job/errors/errors.js';
import { shown } from '../job/errors/holdfast-error.js';
import { checkInteger, type JobDefinition, type PayloadOf, type Priority } from '../job/job.js';
import { checkKey } from '../job/key.js';
import { type Duration, durationMs } from '../job/options/duration.js';
import { checkKnown, type Known } from '../job/options/known-options.js';
import { encodePayload } from '../job/payload.js';
import { cronLine } from './cron.js';
import type { CatchUp } from './due.js';
import type { Timing } from './instants.js';
import { checkZone } from './zone.js';

/** What a tick does while the schedule's last job is not over: skip, queue behind it, or run beside it. */
export type Overlap = 'skip' | 'queue' | 'allow';

/**
 * When a schedule fires, and the job that it enqueues.
 * @example await hf.schedule('digest', { cron: '0 9 * * *', job: sendReceipt, payload: { orderId: 9182 } });
 */
export type ScheduleOptions<Input> = FiringOptions & FiredOptions<Input>;

/** When a schedule fires: at times of the calendar, or at an interval. */
type FiringOptions =
  | {
      /** When it fires: five fields, six with seconds first, or a name such as `@daily`. */
      readonly cron: string;
      /** The time zone of `cron`, such as `Europe/Berlin`. Default `UTC`. */
      readonly timezone?: string;
      readonly every?: undefined;
    }
  | {
      /** In place of `cron`: an interval of at least 1 s, counted from 1970 in UTC. */
      readonly every: Duration;
      readonly cron?: 'Give cron or every, not both.' | undefined;
      readonly timezone?: 'timezone belongs to cron, and not to every.' | undefined;
    };

/** What a schedule enqueues, and how. */
interface FiredOptions<Input> {
  /** The definition of the jobs that it enqueues. */
  readonly job: JobDefinition<Input, unknown>;
  /** The payload of every job. */
  readonly payload: PayloadOf<Input>;
  /** Default: a stream of its own for each job; with `overlap: 'queue'`, one for the schedule. */
  readonly partitionKey?: string;
  /** In a queue whose keys take turns: the group of its jobs. Default: none. */
  readonly group?: string;
  /** Default: that of the job. */
  readonly priority?: Priority;
  /** Default: that of the job. */
  readonly maxAttempts?: number;
  /** What becomes of ticks that nobody was there to write. Default `last`. */
  readonly catchUp?: CatchUp;
  /** What a tick does while the job of the one before is not over. Default `allow`. */
  readonly overlap?: Overlap;
  /** The schedule fires later by a time up to this, which its name decides. Default 0. */
  readonly jitter?: Duration;
}

const OPTIONS = {
  ...{ cron: true, every: true, timezone: true, job: true, payload: true, partitionKey: true },
  group: true,
  ...{ priority: true, maxAttempts: true, catchUp: true, overlap: true, jitter: true },
} as const satisfies Known<ScheduleOptions<unknown>>;

/** A schedule as it is stored; the payload is JSON text. */
export interface NewSchedule extends Timing {
  readonly name: string;
  readonly queue: string;
  readonly type: string;
  readonly version: number;
  readonly payload: string;
  readonly partitionKey: string | null;
  readonly group: string | null;
  readonly limitKey: string | null;
  readonly priority: number;
  readonly maxAttempts: number;
  readonly catchUp: CatchUp;
  readonly overlap: Overlap;
  readonly jitterMs: number;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,199}$/;
const DAY_MS = 86_400_000;
const UNDONE = 'No schedule was made.';

export function checkScheduleName(name: unknown, undone = UNDONE): string {
  if (typeof name === 'string' && NAME.test(name)) return name;
  throw new HoldfastError(
    'NAME_INVALID',
    `${shown(name)} is not a name of a schedule. ${undone} ` +
      'Write 1 to 200 letters, digits and _ . : / @ -, a letter or a digit first.',
  );
}

export async function checkSchedule<Input>(
  name: string,
  options: ScheduleOptions<Input>,
  maxPayloadBytes: number,
): Promise<NewSchedule> {
  const where = `Schedule ${shown(checkScheduleName(name))}`;
  if (options === undefined) throw refused(where, 'give cron or every, a job and a payload');
  checkKnown(options, OPTIONS, where, UNDONE);
  const { job, partitionKey, group, overlap = 'allow', catchUp = 'last' } = options;
  if (typeof job?.check !== 'function') throw refused(where, 'job must be a definition: job("…")');
  oneOf(where, 'catchUp', catchUp, ['none', 'last', 'all']);
  oneOf(where, 'overlap', overlap, ['skip', 'queue', 'allow']);
  const timing = checkTiming(where, options);
  const what = `The payload of schedule ${shown(name)}`;
  const limits = { maxBytes: maxPayloadBytes, what, consequence: 'no schedule was made' };
  const payload = encodePayload(options.payload, limits);
  if (job.hasSchema) await job.check(JSON.parse(payload));
  const own = overlap === 'queue' ? `schedule:${name}` : null;
  return {
    ...{ name, queue: job.queue, type: job.type, version: job.version, payload, ...timing },
    partitionKey: ofSchedule(() =>
      partitionKey === undefined ? own : checkKey(partitionKey, 'partitionKey'),
    ),
    group: ofSchedule(() => (group === undefined ? null : checkKey(group, 'group'))),
    limitKey: ofSchedule(() => job.limitKey(options.payload)),
    priority: checkInteger(options.priority ?? job.priority, 'priority', 1, 4),
    maxAttempts: checkInteger(options.maxAttempts ?? job.maxAttempts, 'maxAttempts', 1, 10_000),
    ...{ catchUp, overlap },
    jitterMs: checkJitter(where, options.jitter, timing.everyMs),
  };
}

/** What refuses the key of a job says that nothing was enqueued. */
function ofSchedule<Value>(check: () => Value): Value {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    const message = error.message.replace(/(n)othing was enqueued/i, (_, n) =>
      n === 'N' ? 'No schedule was made' : 'no schedule was made',
    );
    throw new HoldfastError(error.code, message, { cause: error });
  }
}

function checkTiming(where: string, options: FiringOptions): Timing {
  const { cron, every, timezone } = options;
  if ((cron === undefined) === (every === undefined)) {
    throw refused(
      where,
      cron === undefined ? 'give cron or every' : 'give cron or every, not both',
    );
  }
  if (every !== undefined) {
    if (timezone !== undefined) throw refused(where, 'timezone belongs to cron and not to every');
    const everyMs = time(where, 'every', every, { min: 1_000, max: 3_650 * DAY_MS });
    return { cron: null, everyMs, timezone: 'UTC' };
  }
  cronLine(cron, UNDONE);
  return {
    cron: cron as string,
    everyMs: null,
    timezone: checkZone(timezone === undefined ? 'UTC' : timezone, UNDONE),
  };
}

function checkJitter(where: string, jitter: Duration | undefined, everyMs: number | null): number {
  if (jitter === undefined) return 0;
  return time(where, 'jitter', jitter, { min: 0, max: Math.min(DAY_MS, everyMs ?? DAY_MS) });
}

function time(where: string, what: string, value: Duration, bounds: { min: number; max: number }) {
  try {
    return durationMs(value, what, bounds);
  } catch (error) {
    throw refused(where, (error as Error).message, error);
  }
}

function oneOf(where: string, what: string, value: unknown, allowed: readonly string[]): void {
  if (allowed.includes(value as string)) return;
  const list = allowed.map((one) => `'${one}'`).join(', ');
  throw refused(where, `${what} must be one of ${list}, not ${shown(value)}`);
}

function refused(where: string, problem: string, cause?: unknown): HoldfastError {
  const options = cause === undefined ? {} : { cause };
  return new HoldfastError('OPTION_INVALID', `${where}: ${problem}. ${UNDONE}`, options);
}
