/**
 * Enqueue: check everything first, then write once. A refused item leaves nothing behind, and the caller's transaction
 * usable. Where an idempotency key stands for other work, the statement writes no job and takes no key. The ids come back in the order of the items. After a connection error nobody knows
 * whether the jobs were written: calling again with the same idempotency keys is safe.
 */
import { HoldfastError, invalid, shown } from '../job/errors/holdfast-error.js';
import { encodeHeaders, TAG_HEADER } from '../job/headers.js';
import {
  checkDefinition,
  checkInteger,
  ENQUEUE_OPTIONS,
  type EnqueueItem,
  type EnqueueOptions,
} from '../job/job.js';
import { bucketOf, checkKey } from '../job/key.js';
import { type Duration, durationMs, MAX_DELAY_MS } from '../job/options/duration.js';
import type { DueOptions } from '../job/options/enqueue-options.js';
import { checkKnown, type Known } from '../job/options/known-options.js';
import { encodePayload } from '../job/payload.js';
import { uuidv7 } from '../job/uuid.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { insert, insertWithKeys, type NewJob } from './insert.js';
import { insertFolded } from './unique.js';

/** The job that an enqueue wrote or found. */
export interface Enqueued {
  /** The id of the job. */
  readonly id: string;
  /** True if a job with this idempotency key or unique key existed, so that no new one was written. */
  readonly deduplicated: boolean;
  /** True if the waiting job with this unique key got the new payload, priority and time. */
  readonly replaced?: true;
  /** True if the job with this idempotency key has another type or payload; only with `onMismatch: 'existing'`. */
  readonly mismatch?: true;
}

export interface EnqueueLimits {
  readonly maxPayloadBytes: number;
  /** What to do if the job with this idempotency key has another type or payload. */
  readonly onMismatch: 'error' | 'existing';
}

const UNDONE = 'Nothing was enqueued.';
const ITEM = {
  ...{ job: true, payload: true, options: true, unique: true },
} as const satisfies Known<EnqueueItem>;

/** One statement carries them all, and a statement has to end some time. */
export const MAX_ITEMS = 50_000;

/** Items come from `job.item()`, or were made by hand. */
export function checkItems(items: unknown): void {
  if (!Array.isArray(items)) {
    throw invalid(
      `enqueueMany() takes a list of items, not ${shown(items)}. ${UNDONE} ` +
        'Write enqueueMany([receipt.item({ … })]).',
    );
  }
  for (const [index, item] of items.entries()) {
    const what = `items[${index}]`;
    if (typeof item !== 'object' || item === null) {
      throw invalid(
        `${what} is ${shown(item)}, and no item. ${UNDONE} Make it with job.item(payload).`,
      );
    }
    checkDefinition(item.job, `${what}.job`, UNDONE);
    checkKnown(item, ITEM, what, UNDONE);
    if (item.options === undefined) continue;
    checkKnown(item.options, ENQUEUE_OPTIONS, `${what}.options`, UNDONE);
  }
}

export async function prepareJobs(
  items: readonly EnqueueItem[],
  limits: EnqueueLimits,
): Promise<NewJob[]> {
  if (items.length > MAX_ITEMS) {
    throw invalid(
      `${items.length} jobs in one call are more than the ${MAX_ITEMS} allowed; nothing was enqueued. ` +
        'Split the call; inside one transaction the parts still commit together.',
    );
  }
  const jobs: NewJob[] = [];
  for (const [index, item] of items.entries()) {
    const what = items.length === 1 ? 'payload' : `items[${index}].payload`;
    jobs.push(await prepare(item, what, limits.maxPayloadBytes));
  }
  return jobs;
}

async function prepare(item: EnqueueItem, what: string, maxBytes: number): Promise<NewJob> {
  const { job, options = {} } = item;
  // One that was made by hand does not say what its options and its definition come to.
  const { unique = null } =
    item.unique === undefined ? job.item(item.payload as never, options) : item;
  if (unique && options.idempotencyKey !== undefined) {
    throw invalid(
      'idempotencyKey and unique were both given, and they may stand for two different jobs; nothing was enqueued. ' +
        'Give one of them; unique: false leaves out that of the definition.',
    );
  }
  // First the shape that Postgres can hold, then the schema: a validator may choke on what the first refuses.
  const payload = encodePayload(item.payload, { maxBytes, what });
  // What is stored is checked, because that is what the handler's check will see: a Date is a text by then.
  if (job.hasSchema) await job.check(JSON.parse(payload));
  const id = uuidv7();
  const key = keyOrNull(options.partitionKey, 'partitionKey') ?? id;
  const group = keyOrNull(options.group, 'group');
  return {
    id,
    type: job.type,
    version: job.version,
    key,
    group,
    // All keys of a group are in its bucket.
    bucket: bucketOf(group ?? key),
    payload,
    headers: encodeHeaders(withTag(job, options)),
    priority: checkInteger(options.priority ?? job.priority, 'priority', 1, 4),
    maxAttempts: checkInteger(options.maxAttempts ?? job.maxAttempts, 'maxAttempts', 1, 10_000),
    ...dueTime(options),
    idempotencyKey: keyOrNull(options.idempotencyKey, 'idempotencyKey'),
    unique,
    limitKey: job.limitKey(item.payload),
  };
}

/** The tag is a header. So the archive has it too, and jobs without a tag pay nothing for it. */
function withTag({ type, ...job }: EnqueueItem['job'], { headers, tag }: EnqueueOptions) {
  if (tag === undefined) return headers;
  if (!('signals' in job))
    throw invalid(
      `tag is for runs of workflows, and "${type}" is a job; ${UNDONE.toLowerCase()} Put it into headers, or make it a workflow.`,
    );
  return { ...headers, [TAG_HEADER]: checkKey(tag, 'tag') };
}

const keyOrNull = (key: string | undefined, what: string) =>
  key === undefined ? null : checkKey(key, what);

function checkDelay(delay: Duration, consequence: string): number {
  try {
    return durationMs(delay, 'delay', { max: MAX_DELAY_MS });
  } catch (error) {
    const { message } = error as Error;
    throw invalid(`${message}. ${consequence}`, { cause: error });
  }
}

/** When a job is due. `consequence` follows from a refusal, as a sentence. */
export function dueTime(
  options: DueOptions,
  consequence = UNDONE,
): { delayMs: number; runAt: string | null } {
  const { delay, runAt } = options;
  if (runAt === undefined)
    return {
      delayMs: delay === undefined ? 0 : checkDelay(delay as Duration, consequence),
      runAt: null,
    };
  const time = runAt instanceof Date ? runAt.getTime() : Number.NaN;
  const problem =
    delay !== undefined
      ? 'delay and runAt were both given; give one of them'
      : Number.isNaN(time)
        ? 'runAt is not a valid Date'
        : time > Date.now() + MAX_DELAY_MS
          ? 'runAt is more than ten years ahead'
          : null;
  if (problem) throw invalid(`${problem}. ${consequence}`);
  // A time in the past means now; the year may be one that Postgres' parser does not take.
  return { delayMs: 0, runAt: time < 0 ? null : (runAt as Date).toISOString() };
}

/**
 * Writes prepared jobs. `db` must be inside a transaction when `needsTransaction` says so; the caller sees to that.
 */
export async function writeJobs(
  db: Executor,
  names: Names,
  jobs: readonly NewJob[],
  limits: EnqueueLimits,
): Promise<Enqueued[]> {
  if (jobs.every(({ unique }) => unique === null)) return writePlain(db, names, jobs, limits);
  // These first: they may be refused, and then nothing was folded.
  const plain = jobs.filter(({ unique }) => unique === null);
  const written = (await writePlain(db, names, plain, limits)).values();
  const folded = jobs.filter(({ unique }) => unique !== null);
  const outcomes = (await insertFolded(db, names, folded)).values();
  return jobs.map(({ unique }) => (unique ? outcomes : written).next().value as Enqueued);
}

async function writePlain(
  db: Executor,
  names: Names,
  jobs: readonly NewJob[],
  limits: EnqueueLimits,
): Promise<Enqueued[]> {
  if (jobs.length === 0) return [];
  if (!jobs.some((job) => job.idempotencyKey !== null)) {
    await insert(db, names, jobs);
    return jobs.map(({ id }) => ({ id, deduplicated: false }));
  }
  const despite = limits.onMismatch === 'existing';
  const outcomes = await insertWithKeys(db, names, jobs, despite);
  const wrong = outcomes.findIndex((outcome) => outcome.mismatch);
  if (wrong >= 0 && !despite) {
    throw new HoldfastError(
      'IDEMPOTENCY_MISMATCH',
      `The idempotency key ${JSON.stringify(jobs[wrong]?.idempotencyKey)} already stands for job ` +
        `${outcomes[wrong]?.id}, which has another type or payload; nothing was enqueued. ` +
        'Use a new key for new work, or enqueue exactly what was enqueued before.',
    );
  }
  return outcomes.map(({ id, deduplicated, mismatch }) => ({
    ...{ id, deduplicated },
    ...(mismatch && { mismatch }),
  }));
}

/** Several statements, or one that may have to be taken back. */
export function needsTransaction(jobs: readonly NewJob[]): boolean {
  const plain = jobs.filter(({ unique }) => unique === null);
  const keyed = plain.some((job) => job.idempotencyKey !== null);
  return (plain.length > 0 && plain.length < jobs.length) || (keyed && jobs.length > 1);
}

/** What was written, as events: one for each type. */
export function enqueuedEvents(
  queue: string,
  jobs: readonly NewJob[],
  written: readonly Enqueued[],
) {
  const byType = new Map<string, { count: number; deduplicated: number }>();
  for (const [index, { type }] of jobs.entries()) {
    const seen = byType.get(type) ?? { count: 0, deduplicated: 0 };
    seen.count++;
    if (written[index]?.deduplicated) seen.deduplicated++;
    byType.set(type, seen);
  }
  return [...byType].map(([type, counts]) => ({
    kind: 'enqueued' as const,
    queue,
    type,
    ...counts,
  }));
}
