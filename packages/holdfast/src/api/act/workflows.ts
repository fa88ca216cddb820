/** Runs of workflows: what is sent to them, what they have done, and how they are cancelled and retried. */
import type pg from 'pg';
import { childId } from '../../enqueue/insert-children.js';
import { checkTx } from '../../enqueue/transaction.js';
import { historyOf, type RunHistory } from '../../inspect/job/history.js';
import { readableQueues } from '../../inspect/job/states.js';
import { type RunSteps, stepsOf } from '../../inspect/job/steps.js';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkId } from '../../job/id.js';
import { checkKey } from '../../job/key.js';
import { checkKnown } from '../../job/options/known-options.js';
import { encodePayload } from '../../job/payload.js';
import type { QueueName } from '../../job/queue-name.js';
import { cancel } from '../../operate/cancel.js';
import type { ActOptions } from '../../operate/options.js';
import { boundedExecutor } from '../../postgres/connect/bounded.js';
import { inQueue } from '../../postgres/in-queue.js';
import type { Names } from '../../postgres/names.js';
import { type Executor, executor, type Transaction } from '../../postgres/queryable.js';
import { checkSignal, isWorkflow, type WorkflowDefinition } from '../../workflow/definition.js';
import { openGroups } from '../../workflow/rows/children.js';
import { askToUndo, type NewSignal, send } from '../../workflow/rows/signal.js';
import { type Access, ask } from '../access.js';
import { unknownJob } from '../look/find-jobs.js';
import { dated } from '../look/views.js';
import { cancelFor, type MoveJobs, recordOf, together } from './acts.js';

/**
 * Options of `hf.signal()`.
 * @example await hf.signal(checkout, run.id, 'approved', { by: 'kim' }, { tx: client, key: 'approval:9182' });
 */
export interface SignalOptions {
  /** Sends it once: a second signal with this key to the same run is dropped. Default: every call sends one. */
  readonly key?: string;
  /** Your transaction: the run hears of the signal when it commits. Default: one of its own. */
  readonly tx?: Transaction;
}

/**
 * Options of `hf.steps()`.
 * @example await hf.steps(run.id, { queue: 'orders', values: true });
 */
export interface StepsOptions {
  /** The queue of the run. Default: Holdfast finds it. */
  readonly queue?: QueueName;
  /** Also read what steps returned and signals carried. Default false. */
  readonly values?: boolean;
}

/** What follows the name of a signal: its value, which may be left out if it may be undefined, and the options. */
export type SignalArguments<Value, Options = SignalOptions> = undefined extends Value
  ? [value?: Value, options?: Options]
  : [value: Value, options?: Options];

const SIGNAL_OPTIONS = { key: true, tx: true } as const;
const UNDONE = 'Nothing was sent.';

/** Nothing else ever takes a signal. */
function checkWorkflow(given: unknown): void {
  if (typeof given === 'object' && given !== null && isWorkflow(given)) return;
  throw invalid(
    `The first argument of signal() must be a definition, made with workflow('…'), not ${shown(given)}. ${UNDONE}`,
  );
}

export function workflows(access: Access) {
  return {
    /**
     * Sends a signal to a run. It is kept until a wait of the run takes it. Returns false if its key was sent before.
     * @example await hf.signal(checkout, run.id, 'approved', { by: 'kim' }, { tx: client, key: 'approval:9182' });
     */
    async signal<Signal extends object, Name extends keyof Signal & string>(
      workflow: Pick<WorkflowDefinition<never, Signal>, 'type' | 'queue' | 'signals' | 'carries'>,
      id: string,
      name: Name,
      ...given: SignalArguments<Signal[Name]>
    ): Promise<boolean> {
      const [value, options = {}] = given as [value?: unknown, options?: SignalOptions];
      checkKnown(options, SIGNAL_OPTIONS, 'signal()', UNDONE);
      checkWorkflow(workflow);
      checkSignal(workflow as never, name, UNDONE);
      checkId(id);
      const { key, tx } = options;
      if ('tx' in options) checkTx(tx);
      const limits = { maxBytes: access.maxPayloadBytes, consequence: 'nothing was sent' };
      const signal = {
        ...{
          run: id,
          type: workflow.type,
          name,
          key:
            key === undefined
              ? null
              : checkKey(key, 'key', 'nothing was sent; use a short text such as "approval-9182"'),
          now: !tx,
        },
        value: value === undefined ? null : encodePayload(value, { ...limits, what: 'the signal' }),
      };
      const names = access.names(workflow.queue);
      const pool = access.pool();
      return send(tx ? executor(tx) : boundedExecutor(pool, { prepare: false }), names, signal);
    },
    /**
     * What a run has done and what it waits for, in order, and the signals that were sent to it.
     * @example const { steps } = await hf.steps(run.id);
     */
    async steps(id: string, options: StepsOptions = {}): Promise<RunSteps<Date>> {
      checkKnown(options, { queue: true, values: true }, 'steps()', 'Nothing was read.');
      checkId(id);
      const { queue, values = false } = options;
      const read = (of: string) => {
        const names = access.names(of);
        return inQueue(
          names,
          ask(access, (db) => stepsOf(db, names, id, values)),
        );
      };
      const queues = queue ? [queue] : await ask(access, (db) => readableQueues(db, access.schema));
      // Who may read none is told so.
      for (const of of queues.length > 0 ? queues : ['inbox']) {
        const found = await read(of);
        if (found.steps.length + found.signals.length > 0)
          return {
            steps: found.steps.map((step) => dated(step, ['startedAt', 'endedAt', 'dueAt'])),
            signals: found.signals.map((signal) => dated(signal, ['sentAt'])),
          };
      }
      return { steps: [], signals: [] };
    },
    /**
     * A run with its input and all that is recorded of it, as plain JSON, for `replayHistory()` of the test kit. It holds the
     * values of your steps, so treat it as the data of your customers. Rejects with JOB_UNKNOWN if there is no such run.
     * @example const exported = JSON.stringify(await hf.history(run.id));
     */
    async history(
      id: string,
      options: {
        /** Default: Holdfast finds it. */
        readonly queue?: QueueName;
      } = {},
    ): Promise<RunHistory> {
      checkKnown(options, { queue: true }, 'history()', 'Nothing was read.');
      checkId(id);
      const { queue } = options;
      const queues = queue ? [queue] : await ask(access, (db) => readableQueues(db, access.schema));
      for (const of of queues) {
        const names = access.names(of);
        const read = ask(access, (db) => historyOf(db, names, id), { snapshot: true });
        const found = await inQueue(names, read);
        if (found) return found;
      }
      throw await unknownJob(access, queue ?? null, id);
    },
  };
}

/** Runs that did something undo it first; jobs and runs that did nothing are cancelled. */
export const undoFor =
  (reason = 'cancelled by an operator'): MoveJobs =>
  async (db, names, ids) => {
    const asked = await askToUndo(db, names, ids, reason);
    const rest = ids.filter((id) => !asked.includes(id.toLowerCase()));
    return rest.length === 0 ? asked : [...asked, ...(await cancelFor(reason)(db, names, rest))];
  };

/**
 * Sends a signal as an act of a person, with its row in the audit. The definition is not at hand, so any name is taken.
 * False: a signal with this key was sent to the run before.
 */
export function signalRun(
  pool: pg.Pool,
  names: Names,
  signal: Omit<NewSignal, 'now'>,
  options: ActOptions,
): Promise<boolean> {
  const act = { act: 'signal', queue: names.queue, changes: { signal: signal.name } } as const;
  return together(pool, async (db) => {
    const isFirst = await send(db, names, { ...signal, now: true });
    if (isFirst) await recordOf(act, options)?.addJobs(db, names, [signal.run]);
    return isFirst;
  });
}

const CHUNK = 5_000;
const MAX_DEPTH = 20;

/** `move`, and then their children, and theirs. */
export const withChildren =
  (move: MoveJobs, reason = 'its parent was cancelled'): MoveJobs =>
  async (db, names, ids) => {
    const moved = await move(db, names, ids);
    await cancelChildren(db, names, moved, reason, 1);
    return moved;
  };

async function cancelChildren(
  db: Executor,
  names: Names,
  runs: readonly string[],
  reason: string,
  depth: number,
): Promise<void> {
  if (depth > MAX_DEPTH || runs.length === 0) return;
  for (const { queue, first, count } of await openGroups(db, names, runs)) {
    const of = { ...names, queue };
    for (let from = 0; from < count; from += CHUNK) {
      const size = Math.min(CHUNK, count - from);
      const some = Array.from({ length: size }, (_, n) => childId(first, from + n));
      await cancelChildren(db, of, await cancel(db, of, some, reason), reason, depth + 1);
    }
  }
}

export function checkStep(from: unknown): string {
  if (typeof from === 'string' && from !== '') return from;
  throw invalid('from must be the name of a step; nothing was retried.');
}
