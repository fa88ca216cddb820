/**
 * Assertions on what waits in the queues. They read committed rows, or, with `tx`, what the caller's transaction
 * has written and not yet committed. A failed one says what is there instead. Errors are plain, so that any test
 * runner shows them.
 */
import type { JobDefinition, Queryable, QueueName } from 'holdfast';
import { checkKnown, type Known } from 'holdfast/internal';
import { invalid } from './deps.js';
import { type EnqueuedJob, enqueuedJobs, queueNames } from './rows.js';
import { isUntouched, type Target, target } from './target.js';

/** As much of a value as one cares for. */
export type DeepPartial<Value> = Value extends readonly unknown[]
  ? Value
  : Value extends object
    ? { readonly [Key in keyof Value]?: DeepPartial<Value[Key]> }
    : Value;

/** What is left out matches everything. */
export interface EnqueuedMatch<Input = unknown> {
  /** The name of the type, or the job itself: then its payload is checked by the compiler. */
  readonly type?: string | JobDefinition<Input, unknown>;
  /** Its partition key. */
  readonly partitionKey?: string;
  /** Default: any queue. */
  readonly queue?: QueueName;
  /** Objects may have more than is written here; arrays and values must be equal. */
  readonly payload?: DeepPartial<Input>;
}

/** Where `expectEnqueued()` looks. */
export interface ExpectOptions extends Target {
  /** Your transaction: what it has written counts too. Default: only what is committed. */
  readonly tx?: Queryable;
}

const OPTIONS = { hf: true, tx: true } as const satisfies Known<ExpectOptions>;
const FIELDS = ['type', 'partitionKey', 'queue', 'payload'];
const SHOWN = 10;

/**
 * Returns the jobs that wait or run and match, in the order of their enqueues.
 * @example const receipts = await allEnqueued({ type: sendReceipt }, { hf });
 */
export async function allEnqueued<Input = unknown>(
  match: EnqueuedMatch<Input> = {},
  options: ExpectOptions = {},
): Promise<EnqueuedJob[]> {
  checkMatch(match);
  return (await waiting(options)).filter((job) => matches(job, match));
}

/**
 * Passes if a job that waits or runs matches, and returns the first.
 * @example await expectEnqueued({ type: 'send_receipt', payload: { orderId: 9182 } }, { hf });
 */
export async function expectEnqueued<Input = unknown>(
  match: EnqueuedMatch<Input>,
  options: ExpectOptions = {},
): Promise<EnqueuedJob> {
  checkMatch(match);
  const all = await waiting(options);
  const found = all.find((job) => matches(job, match));
  if (found) return found;
  throw failure(`No job is enqueued that matches ${shownMatch(match)}.`, all, expectEnqueued);
}

/**
 * Passes if no job that waits or runs matches.
 * @example await expectNotEnqueued({ type: sendReceipt }, { hf });
 */
export async function expectNotEnqueued<Input = unknown>(
  match: EnqueuedMatch<Input>,
  options: ExpectOptions = {},
): Promise<void> {
  checkMatch(match);
  const all = await waiting(options);
  const found = all.filter((job) => matches(job, match));
  if (found.length === 0) return;
  const what = found.length === 1 ? 'A job is' : `${found.length} jobs are`;
  throw failure(
    `${what} enqueued that should not be: ${shownMatch(match)}.`,
    found,
    expectNotEnqueued,
  );
}

async function waiting(options: ExpectOptions): Promise<EnqueuedJob[]> {
  checkKnown(options, OPTIONS, 'expectEnqueued()', 'Nothing was looked for.');
  const { hf, tx } = options;
  if (tx !== undefined && typeof tx?.query !== 'function')
    throw invalid(
      'tx has no query(), so nothing was looked for. Pass the client on which your transaction runs.',
    );
  if (isUntouched(hf))
    throw invalid(
      'No hf was given, and the PGlite that tests share was not used yet, so there is nothing to look at. ' +
        'Pass { hf }, or name it once with useHoldfast(hf).',
    );
  const { ownPool, schema } = await target(hf);
  const db: Queryable = tx ?? ownPool;
  const jobs: EnqueuedJob[] = [];
  for (const queue of await queueNames(db, schema))
    jobs.push(...(await enqueuedJobs(db, { schema, queue })));
  return jobs;
}

function checkMatch(match: unknown): asserts match is object {
  if (typeof match !== 'object' || match === null)
    throw invalid(
      `The match is ${String(match)}, so nothing was looked for. It is an object, such as { type: sendReceipt }.`,
    );
  if (typeof (match as { item?: unknown }).item === 'function')
    throw invalid(
      'The match is a job itself, so nothing was looked for. Name it as the type: { type: sendReceipt }.',
    );
  const unknown = Object.keys(match).filter((name) => !FIELDS.includes(name));
  if (unknown.length > 0)
    throw invalid(
      `A match has no field ${unknown.join(', ')}, so nothing was looked for. Use ${FIELDS.join(', ')}; hf and tx go into the second argument.`,
    );
  const hole = undefinedIn(match, (match as Match).payload);
  if (hole !== null)
    throw invalid(
      `In the match, ${hole} is undefined and would match anything, so nothing was looked for. Give it a value, or leave it out.`,
    );
}

/** The place of the first value that is there and undefined: a misspelt variable, which must not pass for a match. */
function undefinedIn(match: object, payload: unknown): string | null {
  const holes = (value: unknown, at: string): string[] =>
    typeof value === 'object' && value !== null
      ? Object.entries(value).flatMap(([name, one]) => holes(one, `${at}.${name}`))
      : value === undefined
        ? [at]
        : [];
  const fields = Object.entries(match).flatMap(([name, one]) => (one === undefined ? [name] : []));
  return fields[0] ?? (payload === undefined ? null : (holes(payload, 'payload')[0] ?? null));
}

/** A match of any job. */
type Match = Omit<EnqueuedMatch, 'type'> & { readonly type?: string | { readonly type: string } };

const typeName = (type: Match['type']) => (typeof type === 'object' ? type.type : type);

function matches(job: EnqueuedJob, match: Match): boolean {
  const type = typeName(match.type);
  return (
    (type === undefined || job.type === type) &&
    (match.partitionKey === undefined || job.partitionKey === match.partitionKey) &&
    (match.queue === undefined || job.queue === match.queue) &&
    (match.payload === undefined || contains(job.payload, match.payload))
  );
}

/** Whether a value has everything that is wanted. Both are as JSON has them. */
function contains(value: unknown, wanted: unknown, whole = false): boolean {
  if (typeof wanted !== 'object' || wanted === null) return Object.is(value, wanted);
  const plain: unknown = JSON.parse(JSON.stringify(wanted));
  if (typeof plain !== 'object' || plain === null) return Object.is(value, plain);
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(plain) !== Array.isArray(value)) return false;
  const [have, want] = [value as Record<string, unknown>, plain as Record<string, unknown>];
  // In an array nothing may be left out.
  const all = whole || Array.isArray(plain);
  if (all && Object.keys(have).length !== Object.keys(want).length) return false;
  return Object.keys(want).every((key) => key in have && contains(have[key], want[key], all));
}

function shownMatch({ type, ...rest }: Match): string {
  const name = typeName(type);
  return JSON.stringify({ ...(name !== undefined && { type: name }), ...rest });
}

function failure(
  what: string,
  jobs: readonly EnqueuedJob[],
  caller: (...args: never[]) => unknown,
) {
  const lines = jobs.slice(0, SHOWN).map(shownJob);
  const more = jobs.length > SHOWN ? [`  … and ${jobs.length - SHOWN} more`] : [];
  const list = jobs.length === 0 ? ['  nothing'] : [...lines, ...more];
  const error = new Error([what, 'Enqueued, waiting or running:', ...list].join('\n'));
  Error.captureStackTrace?.(error, caller);
  return error;
}

function shownJob(job: EnqueuedJob): string {
  const { type, partitionKey: key, id, queue, payload, delayMs, running } = job;
  const when = running ? ', running' : delayMs > 0 ? `, due in ${delayMs} ms` : '';
  const of = key === id ? '' : ` key ${JSON.stringify(key)}`;
  const text = JSON.stringify(payload);
  const short = text.length > 200 ? `${text.slice(0, 199)}…` : text;
  return `  ${type}${of} in queue "${queue}"${when}: ${short}`;
}
