/**
 * Runs of workflows: a list, what waits for what, and one run with its steps. What a step returned, and what a signal carried,
 * is read when somebody asks for it, and redacted as the payload and the result of a job are.
 */
import type { Run, RunState } from 'holdfast';
import {
  childId,
  failedChildrenOf,
  inQueue,
  linksOf,
  type RunStep,
  runNow,
  runValue,
  stepsOf,
  TAG_HEADER,
  workflowTypes,
} from 'holdfast/internal';
import { numberOf } from '../guard/input.js';
import type { Redactor } from '../guard/redact.js';
import { Refused } from '../guard/reply.js';
import { queueOf, type Read, SEARCH_MS, shownJob } from './reads.js';

/** Steps that are shown of a long run, beside those that are open: the last ones. */
const MAX_STEPS = 300;
const MAX_SIGNALS = 200;
/** Children that are linked, of those that come first and of those that failed. */
const LINKED = 5;

/** Errors of steps are in it. */
function redactedRun(redactor: Redactor, run: Run): Run {
  const { queue, workflow: type } = run;
  const error = (text: string | null) => text && redactor.text(text, queue, type);
  return {
    ...run,
    lastError: error(run.lastError),
    waits: run.waits.map((wait) => ({ ...wait, error: error(wait.error) })),
  };
}

export const runs: Read = async ({ runs: look, redactor }, { query }) => {
  const limit = numberOf(query, 'limit');
  const part = (name: string) => {
    const value = query.get(name);
    return value ? { [name]: value } : {};
  };
  const states = query.get('state')?.split(',').filter(Boolean) as RunState[] | undefined;
  const from = (after: string | null) =>
    look.runs({
      ...{ queue: queueOf(query), after },
      ...{ ...part('workflow'), ...part('key'), ...part('tag') },
      ...(states && states.length > 0 && { state: states }),
      ...(limit !== undefined && { limit }),
    });
  const deadline = performance.now() + SEARCH_MS;
  let page = await from(query.get('after') || null);
  while (page.runs.length === 0 && page.next !== null && performance.now() < deadline)
    page = await from(page.next);
  return { ...page, runs: page.runs.map((run) => redactedRun(redactor, run)) };
};

/** What waits for what, and which workflows there are. */
export const waiting: Read = async ({ runs: look, read, access }, { query }) => {
  const queue = queueOf(query);
  const names = access.names(queue);
  const types = await inQueue(
    names,
    read((db) => workflowTypes(db, names)),
  );
  return { waiting: await look.waitingRuns({ queue }), workflows: types.map(({ type }) => type) };
};

interface Group {
  readonly queue: string;
  readonly first: string;
  readonly count: number;
}

const groupOf = ({ kind, value }: RunStep): Group | null =>
  kind === 'children' && value !== null ? (value as Group) : null;

type Failed = Awaited<ReturnType<typeof failedChildrenOf>>;

interface Child {
  readonly n: number;
  readonly id: string;
}

/** Of a step that made children. */
export interface SeenChildren {
  readonly queue: string;
  readonly count: number;
  readonly dead: number;
  readonly cancelled: number;
  readonly first: readonly Child[];
  /** The first that did not complete. */
  readonly failed: readonly Child[];
}

function childrenOf(step: RunStep, failed: Failed): SeenChildren | null {
  const group = groupOf(step);
  if (!group) return null;
  const { queue, first, count } = group;
  const ended = failed.find((one) => one.step === step.name);
  const ids = (all: readonly number[]) => all.map((n) => ({ n, id: childId(first, n) }));
  return {
    ...{ queue, count, dead: ended?.dead ?? 0, cancelled: ended?.cancelled ?? 0 },
    first: ids(Array.from({ length: Math.min(LINKED, count) }, (_, n) => n)),
    failed: ids((ended?.first ?? []) as number[]),
  };
}

/** Why a run undoes what it did: it failed, or somebody cancelled it. */
function undoReason(steps: readonly RunStep[], asked: string | null): string | null {
  const begun = steps.find(({ kind }) => kind === 'undoing')?.value as
    | { readonly cancelled?: string; readonly error?: { readonly message?: string } }
    | undefined;
  return begun?.cancelled ?? begun?.error?.message ?? asked;
}

/** The last ones, and all that are open. */
function bounded(steps: readonly RunStep[]) {
  const own = steps.filter(({ kind }) => kind !== 'undoing');
  const from = own.length - MAX_STEPS;
  return { all: own, shown: own.filter(({ endedAt }, at) => at >= from || endedAt === null) };
}

/** A failed transaction has written nothing; what has failed otherwise may have happened. */
const isUndoable = ({ hasUndo, kind, state }: RunStep) =>
  hasUndo && !(kind === 'transaction' && state !== 'done');

/** What undo would do, or still has to, in this order. */
function toUndo(steps: readonly RunStep[]): string[] {
  const undone = steps.filter(({ kind, state }) => kind === 'undo' && state === 'done');
  const names = new Set(undone.map(({ name }) => name));
  return steps
    .filter((step) => isUndoable(step) && !names.has(step.name))
    .sort((a, b) => b.nth - a.nth)
    .map(({ name }) => name);
}

/** What it returned is asked for by itself. */
function stepView({ value: _, error, ...step }: RunStep, hide: (text: string) => string) {
  return { ...step, error: error && { ...error, message: hide(error.message) } };
}

export const run: Read = async (context, { params }) => {
  const { read, access, redactor } = context;
  const shown = await shownJob(context, params.id as string);
  const { id, queue, type, archived, status, headers } = shown.job;
  const names = access.names(queue);
  const seen = await inQueue(
    names,
    read(async (db) => ({
      links: await linksOf(db, names, { id, type }),
      now: archived ? null : await runNow(db, names, id),
      record: await stepsOf(db, names, id, false),
      failed: await failedChildrenOf(db, names, id),
    })),
  );
  const { links, now, record, failed } = seen;
  if (!links.isRun) throw new Refused(404, 'This job is not a run of a workflow.');
  const { all, shown: steps } = bounded(record.steps);
  const why = undoReason(record.steps, links.undoAsked);
  const hide = (text: string) => redactor.text(text, queue, type);
  return {
    ...shown,
    ...{ state: now?.state ?? status, parent: links.parent, tag: headers?.[TAG_HEADER] ?? null },
    steps: steps.map((step) => ({ ...stepView(step, hide), children: childrenOf(step, failed) })),
    moreSteps: all.length - steps.length,
    signals: record.signals.slice(-MAX_SIGNALS).map(({ value: _, ...signal }) => signal),
    moreSignals: Math.max(0, record.signals.length - MAX_SIGNALS),
    undo: { why: why && hide(why), left: archived ? [] : toUndo(all) },
  };
};

/** What one step returned (`step`), or one signal carried (`signal`, sent at `at`). */
export const value: Read = async ({ read, access, redactor, look }, { query, params }) => {
  const id = params.id as string;
  const job = await look.job(id);
  if (!job) throw new Refused(404, 'No queue and no archive has a job with this id.');
  const names = access.names(job.queue);
  const [step, signal, sentAt] = ['step', 'signal', 'at'].map((name) => query.get(name));
  if (!step && !(signal && sentAt))
    throw new Refused(400, 'Say which step, or which signal and when it was sent.');
  const which = step ? { step } : { signal: signal as string, sentAt: sentAt as string };
  const found = await inQueue(
    names,
    read((db) => runValue(db, names, id, which)),
  );
  if (!found) throw new Refused(404, 'This run has no such value, or not any more.');
  const { queue, type } = job;
  const field = step ? 'result' : 'payload';
  return { value: redactor.part(found.value, { field, queue, type }) };
};
