/**
 * Changing a job that waits, or asking for one that runs to be due again at once. Everything is checked before it is sent; one statement changes the job or finds that it
 * does not wait, and then the refusal says what it is doing instead. A job that is due earlier, or is more urgent now,
 * lies where workers have read already, so it is announced like a job that came back.
 */
import { dueTime } from '../../enqueue/enqueue.js';
import { checkTx } from '../../enqueue/transaction.js';
import { hintQueue } from '../../fleet/wake.js';
import { type StateRow, statesOf } from '../../inspect/job/states.js';
import { HoldfastError, invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkId } from '../../job/id.js';
import { checkInteger, type JobDefinition, type PayloadOf, type Priority } from '../../job/job.js';
import type { Duration } from '../../job/options/duration.js';
import { checkKnown, type Known } from '../../job/options/known-options.js';
import { encodePayload } from '../../job/payload.js';
import { ACT_OPTIONS, type ActOptions, checkActOptions } from '../../operate/options.js';
import { UNCHANGED, updateWaiting, type WaitingChanges } from '../../operate/update.js';
import { type Executor, executor, type Transaction } from '../../postgres/queryable.js';
import { type Access, ask, ofQueue, type QueueChoice } from '../access.js';
import { findJobs, unknownJob } from '../look/find-jobs.js';
import { actIn, recordOf } from './acts.js';

/** When it is due from now on. */
type DueChange =
  | {
      /**
       * When it is due, counted from now. `delay: 0`, or a `runAt` in the past, by itself reaches a job that runs too: if
       * its attempt snoozes, fails or is released, it is due again at once. Default: as it is.
       */
      readonly delay?: Duration;
      readonly runAt?: undefined;
    }
  | {
      readonly delay?: 'Give delay or runAt, not both.' | undefined;
      /** When it is due, in place of `delay`; a time in the past means now. Default: as it is. */
      readonly runAt?: Date;
    };

/**
 * What `hf.update()` changes. Whatever you leave out stays as it is.
 * @example await hf.update(run.id, { delay: '1h', priority: 1 });
 */
export type JobChanges<Input> = DueChange & {
  /** The new payload. Default: as it is. */
  readonly payload?: PayloadOf<Input>;
  /** 1 (first) to 4 (last). Default: as it is. */
  readonly priority?: Priority;
};

/** Which job `hf.update()` changes, and who does it. */
export interface UpdateChoice<Input> extends QueueChoice, ActOptions {
  /** Its queue is the job's; a new payload is checked by its schema and has its version. Default: any job. */
  readonly job?: JobDefinition<Input, unknown>;
  /** Your transaction: anything with `query(text, params)`, or one of the adapters. Default: one of its own. */
  readonly tx?: Transaction;
}

const OPTIONS = {
  ...{ queue: true, job: true, tx: true, ...ACT_OPTIONS },
} as const satisfies Known<UpdateChoice<unknown>>;
const NOT_DONE = 'the job was not changed';
const PARTS = ['payload', 'runAt', 'delay', 'priority'];

function checkParts(changes: unknown): void {
  const given = typeof changes === 'object' && changes !== null ? changes : {};
  const wrong = Object.keys(given).find((part) => !PARTS.includes(part));
  const some = Object.values(given).some((value) => value !== undefined);
  if (wrong === undefined && some) return;
  throw invalid(
    wrong === undefined
      ? `Nothing is to be changed; ${NOT_DONE}. Pass at least one of ${PARTS.join(', ')}.`
      : `A job has no ${shown(wrong)} that can be changed; ${NOT_DONE}. Pass ${PARTS.join(', ')}.`,
  );
}

async function prepared<Input>(
  access: Access,
  changes: JobChanges<Input>,
  job: JobDefinition<Input, unknown> | undefined,
): Promise<WaitingChanges> {
  checkParts(changes);
  const { payload, priority } = changes;
  const due = changes.delay !== undefined || changes.runAt !== undefined;
  const time = due ? dueTime(changes, 'The job was not changed.') : { runAt: null, delayMs: null };
  const maxBytes = access.maxPayloadBytes;
  const encoded =
    payload === undefined
      ? null
      : encodePayload(payload, { maxBytes, what: 'payload', consequence: NOT_DONE });
  // What is stored is checked, because that is what the handler's check will see.
  if (encoded !== null && job) await job.check(JSON.parse(encoded));
  return {
    ...UNCHANGED,
    ...time,
    payload: encoded,
    version: encoded !== null && job ? job.version : null,
    priority: priority === undefined ? null : checkInteger(priority, 'priority', 1, 4),
    type: job?.type ?? null,
  };
}

/** Rejects with JOB_STATE when the job does not wait, and JOB_UNKNOWN when it is not there. */
export async function update<Input>(
  access: Access,
  id: string,
  changes: JobChanges<Input>,
  choice: UpdateChoice<Input> = {},
): Promise<void> {
  checkKnown(choice, OPTIONS, 'update()', 'The job was not changed.');
  checkActOptions(choice);
  if ('tx' in choice) checkTx(choice.tx);
  const { job, queue = job?.queue, tx } = choice;
  const checked = checkId(id);
  const wanted = await prepared(access, changes, job);
  const updateIn = (where: string) => updateJob(access, where, checked, wanted, choice);
  if (await updateIn(queue ?? 'inbox')) return;
  const [elsewhere] = queue === undefined ? (await findJobs(access, [checked], tx)).keys() : [];
  if (elsewhere !== undefined && (await updateIn(elsewhere))) return;
  if (!tx) throw await unknownJob(access, queue ?? null, checked);
  // Why is not asked: there may be no connection beside the transaction.
  const where =
    queue === undefined ? 'No queue and no archive has it' : `"${queue}" does not have it`;
  throw new HoldfastError('JOB_UNKNOWN', `Job ${checked} is not known: ${where}; ${NOT_DONE}.`);
}

/** False: this queue does not know the job. */
function updateJob(
  access: Access,
  queue: string,
  checked: string,
  wanted: WaitingChanges,
  choice: ActOptions & { readonly tx?: Transaction },
): Promise<boolean> {
  return ofQueue(access, { queue }, async (names) => {
    const act = { act: 'update', queue, changes: kept(wanted) } as const;
    const updated = await actIn(access, choice, async (db) => {
      const now = await updateWaiting(db, names, checked, wanted);
      if (!now) return false;
      const moved = wanted.runAt ?? wanted.delayMs ?? wanted.priority;
      if (moved !== null && now.waits) await hintQueue(db, names, [now]);
      await recordOf(act, choice)?.addJobs(db, names, [checked]);
      return true;
    });
    if (updated) return true;
    const find = (db: Executor) => statesOf(db, names, [checked]);
    const [found] = await (choice.tx ? find(executor(choice.tx)) : ask(access, find));
    if (found) throw refusal(found, checked, wanted.type);
    return false;
  });
}

/** What the audit keeps of it. Of a payload only that it was changed: it may hold what nobody else may read. */
function kept({ payload, version, priority, runAt, delayMs }: WaitingChanges): object {
  const facts = { priority, runAt, delayMs, version };
  const known = Object.entries(facts).filter(([, value]) => value !== null);
  return { ...Object.fromEntries(known), ...(payload !== null && { payload: 'changed' }) };
}

const REMEDIES: Readonly<Record<string, string>> = {
  processing:
    'A worker runs it: { delay: 0 } by itself makes it due at once when this attempt snoozes or fails; hf.cancel() stops it',
  dead_letter: 'hf.retry() makes it wait again',
};

function refusal(found: StateRow, id: string, type: string | null): HoldfastError {
  if (type !== null && found.type !== type) {
    return invalid(
      `Job ${id} is a "${found.type}" and not a "${type}"; ${NOT_DONE}. Pass the definition of its type.`,
    );
  }
  return new HoldfastError('JOB_STATE', `Job ${id} ${stateText(found)}.`);
}

function stateText({ archived, status }: StateRow): string {
  // Between the two statements it may have come back.
  if (!archived && status === 'pending')
    return `was busy just now, or is a run that has begun, of which only the priority can be changed, or with { delay: 0 } its time; ${NOT_DONE}. Try again`;
  const remedy = archived
    ? 'Enqueue another one, or bring it back with hf.archive.replay()'
    : REMEDIES[status];
  return `is ${status} and does not wait; ${NOT_DONE}. ${remedy}`;
}
