/** `holdfast workflows signal | cancel | retry`: what a person does with runs. */
import { cancelFor, retryAndHint, retryFrom } from '../../../api/act/acts.js';
import { checkStep, signalRun, undoFor, withChildren } from '../../../api/act/workflows.js';
import { showJob } from '../../../inspect/job/show.js';
import { workflowTypes } from '../../../inspect/run/types.js';
import { checkKey } from '../../../job/key.js';
import { encodePayload } from '../../../job/payload.js';
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { actOptions } from '../../actor.js';
import type { Call } from '../../command.js';
import { Failure, UsageError } from '../../failures.js';
import { checkIds, oneId, parsePayload, readStdin } from '../../parse/values.js';
import { byId, CANCEL, RETRY } from '../jobs/act.js';

const MAX_VALUE_BYTES = 1_048_576;
const UNSENT = 'nothing was sent';
const NOT_SENT = `${UNSENT}; use a short text such as "approved"`;

/** Null: none. */
async function jsonOf(word: string | undefined): Promise<string | null> {
  if (word === undefined) return null;
  const value = parsePayload(word === '-' ? await readStdin() : word, UNSENT, 'The value');
  const limits = { maxBytes: MAX_VALUE_BYTES, what: 'the signal', consequence: UNSENT };
  return encodePayload(value, limits);
}

export async function runSignal({ args, given, session, out }: Call): Promise<void> {
  const [id = '', name, value, ...rest] = args;
  if (name === undefined || rest.length > 0)
    throw new UsageError(`Write: holdfast workflows signal ID NAME ['{"some": "JSON"}' | -]`);
  const run = oneId([id]);
  checkKey(name, 'name of the signal', NOT_SENT);
  const key = given.text('key') === undefined ? null : checkKey(given.text('key'), 'key', NOT_SENT);
  const queues = await session.queueNames(given.texts('queue'));
  const job = await session.read((db) => showJob(db, session.schema, queues, run));
  if (!job) throw new Failure(`No run ${run} is in ${queues.join(', ')}; ${UNSENT}.`);
  const signal = { run, name, value: await jsonOf(value), key };
  const sent = await signalRun(session.pool, session.names(job.queue), signal, actOptions(given));
  await (out.json ? out.value({ id: run, queue: job.queue, signal: name, sent }) : out.line(run));
  if (!(await session.read((db) => mayBeRun(db, session.names(job.queue), job.type))))
    out.note(
      `No worker has a body for "${job.type}": if it is no workflow, nothing takes the signal.`,
    );
  if (!sent) out.note('A signal with this key was sent to it before; it was not sent again.');
}

/** Before the first worker starts, every type may be a workflow. */
async function mayBeRun(db: Executor, names: Names, type: string): Promise<boolean> {
  const known = await workflowTypes(db, names);
  return known.length === 0 || known.some((one) => one.type === type);
}

function runsOf(call: Call): string[] {
  if (call.args.length > 0) return checkIds(call.args);
  throw new UsageError('Say which runs, by their ids: holdfast workflows ls lists them.');
}

export function runCancel(call: Call): Promise<number> {
  const { given } = call;
  const reason = given.text('reason');
  const undo = given.flag('undo');
  const move = undo ? undoFor(reason) : cancelFor(reason);
  return byId(
    call,
    {
      ...{ ...CANCEL, noun: 'run', done: undo ? 'told to undo what it did' : 'cancelled' },
      move: () => (given.flag('children') ? withChildren(move, reason) : move),
    },
    runsOf(call),
  );
}

export function runRetry(call: Call): Promise<number> {
  const from = call.given.text('from');
  const move = from === undefined ? retryAndHint : retryFrom(checkStep(from));
  return byId(call, { ...RETRY, noun: 'run', move: () => move }, runsOf(call));
}
