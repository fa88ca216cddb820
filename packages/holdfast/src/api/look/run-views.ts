/** Runs of workflows as a program gets them: times are Dates. */
import type { EndedRun } from '../../inspect/job/archive.js';
import { kindOf, type RunStep } from '../../inspect/job/steps.js';
import type { ListedRun } from '../../inspect/run/list.js';
import type { RunState } from '../../inspect/run/state.js';
import type { StoredWait } from '../../inspect/run/waits.js';
import type { QueueName } from '../../job/queue-name.js';

/** What a run waits for. */
export interface RunWait {
  /** The name of the step. */
  readonly name: string;
  /** Such as `wait` for signals, or `sleep`. */
  readonly kind: RunStep['kind'];
  /** Of a wait: its signals. It takes the first that comes. */
  readonly signals: readonly string[] | null;
  /** When it asked for it first. */
  readonly since: Date;
  /** Null: until it is there. */
  readonly until: Date | null;
  /** Of children: how many have not ended. */
  readonly remaining: number | null;
  /** Of children: how many there are. */
  readonly children: number | null;
  /** Of a step that is tried again: how often it was tried. */
  readonly attempts: number | null;
  /** What its last try threw. */
  readonly error: string | null;
}

/** A run of a workflow in a list. */
export interface Run {
  /** The id that the enqueue returned. */
  readonly id: string;
  /** The queue that it is in, or was in. */
  readonly queue: QueueName;
  /** The name of its workflow. */
  readonly workflow: string;
  /** The version that it began with. */
  readonly version: number;
  /** What it does. */
  readonly state: RunState;
  /** Its partition key. */
  readonly key: string;
  /** Null: it has none. */
  readonly tag: string | null;
  /** What it waits for, the first due first; at most 20. */
  readonly waits: readonly RunWait[];
  /** Turns without progress. */
  readonly attempts: number;
  /** When it was enqueued. */
  readonly createdAt: Date;
  /** When it is due; null: something has to come first, or it has ended. */
  readonly runAt: Date | null;
  /** When it became a dead letter. */
  readonly diedAt: Date | null;
  /** When it left the queue. */
  readonly completedAt: Date | null;
  /** The worker that has it, or had it last. */
  readonly claimedBy: string | null;
  /** In one line. */
  readonly lastError: string | null;
}

const waitView = ({ kind, name, since, until, ...rest }: StoredWait): RunWait => ({
  ...{ name: kind === 'u' ? name.slice(1) : name, kind: kindOf(kind) },
  ...{ since: new Date(since), until: until === null ? null : new Date(until) },
  ...rest,
});

const date = (at: string | null) => (at === null ? null : new Date(at));

/** One that is in its queue. */
export const runView = (queue: string, { waits, ...row }: ListedRun): Run => ({
  ...row,
  ...{ queue, state: row.state as RunState },
  waits: ((waits ?? []) as StoredWait[]).map(waitView),
  ...{ createdAt: new Date(row.createdAt), runAt: date(row.runAt), diedAt: date(row.diedAt) },
  completedAt: null,
});

/** One that has ended. */
export const endedView = (queue: string, row: EndedRun): Run => ({
  ...{ id: row.id, queue, workflow: row.type, version: row.version },
  ...{ state: row.status as RunState, key: row.partitionKey, tag: row.tag, waits: [] },
  ...{ attempts: row.attempts, createdAt: new Date(row.createdAt), runAt: null },
  ...{ diedAt: null, completedAt: new Date(row.completedAt) },
  ...{ claimedBy: row.claimedBy, lastError: row.lastError },
});
