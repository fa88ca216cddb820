/** What the server sends, as it arrives: a Date is a text by then. */

import type {
  AuditEntry,
  DeadLetterGroup,
  Explanation,
  Finding,
  Job,
  JobSummary,
  Run,
  RunSignal,
  RunStep,
  Schedule,
  WaitingRuns,
} from 'holdfast';
import type {
  ProjectionGauges,
  ProjectionStop,
  QueueRow,
  RunLinks,
  WebhookAttemptRow,
  WebhookEndpointRow,
} from 'holdfast/internal';
import type { SeenLimit } from '../../src/read/limits.js';
import type { RingPicture } from '../../src/read/ring.js';
import type { SeenChildren } from '../../src/read/runs.js';
import type { SeenWorker, Snapshot } from '../../src/read/snapshot.js';

type Wire<Value> = Value extends Date
  ? string
  : Value extends readonly (infer Item)[]
    ? readonly Wire<Item>[]
    : Value extends object
      ? { readonly [Name in keyof Value]: Wire<Value[Name]> }
      : Value;

export interface Session {
  readonly actor: string;
  readonly write: boolean;
  readonly version: string;
  readonly schema: string;
  readonly signedIn: boolean;
  /** There is a live lab. */
  readonly lab: boolean;
}

export type LiveSnapshot = Wire<Snapshot>;
export type LiveQueue = LiveSnapshot['queues'][number];
export type LockedQueue = LiveSnapshot['unreadable'][number];
export type LiveWorker = Wire<SeenWorker>;
export type ListedJob = Wire<JobSummary>;
export type JobsPage = { readonly jobs: readonly ListedJob[]; readonly next: string | null };
export type ShownJob = Wire<Omit<Job, 'payload' | 'result'>> & {
  readonly payload: unknown;
  readonly result: unknown;
};
interface Explained {
  readonly job: ShownJob;
  readonly explanation: Omit<Explanation, 'job'>;
  /** The run that waits for it. */
  readonly parent: RunLinks['parent'];
}
export interface JobAnswer extends Explained {
  /** It is a run of a workflow. */
  readonly isRun: boolean;
}
export type ListedRun = Wire<Run>;
export type RunsAnswer = { readonly runs: readonly ListedRun[]; readonly next: string | null };
export type WaitingAnswer = {
  readonly waiting: readonly Wire<WaitingRuns>[];
  readonly workflows: readonly string[];
};
export type ShownStep = Omit<RunStep, 'value'> & { readonly children: SeenChildren | null };
export type ShownSignal = Omit<RunSignal, 'value'>;
export interface RunAnswer extends Explained {
  readonly state: string;
  readonly tag: string | null;
  readonly steps: readonly ShownStep[];
  /** So many came before and are not among them. */
  readonly moreSteps: number;
  readonly signals: readonly ShownSignal[];
  readonly moreSignals: number;
  readonly undo: {
    /** Why it undoes what it did; null: it does not. */
    readonly why: string | null;
    /** What is still to be undone, or would be, in this order. */
    readonly left: readonly string[];
  };
}
export type Group = Wire<DeadLetterGroup> & {
  /** Its error is not what the dead letters say. */
  readonly redacted: boolean;
};
export type QueueSettings = QueueRow;
export type ListedSchedule = Wire<Omit<Schedule, 'payload'>> & {
  readonly payload: unknown;
  readonly nextRuns: readonly number[];
  /** How much later than its instants it fires. */
  readonly delayMs: number;
};
export type SchedulesAnswer = {
  readonly schedules: readonly ListedSchedule[];
  readonly next: string | null;
};
export type LimitsAnswer = { readonly limits: readonly SeenLimit[] };
export type SeenEndpoint = WebhookEndpointRow;
export type SeenAttempt = Omit<WebhookAttemptRow, 'answer'> & { readonly answer: unknown };
export type WebhooksAnswer = {
  readonly queues: readonly string[];
  readonly queue: string | null;
  readonly endpoints: readonly SeenEndpoint[];
  readonly next: string | null;
};
export type WebhookAnswer = {
  readonly queue: string;
  readonly endpoint: SeenEndpoint;
  readonly counts: { readonly waiting: number; readonly held: number; readonly failed: number };
  readonly attempts: readonly SeenAttempt[];
  readonly next: string | null;
};
export type SeenBuild = ProjectionGauges;
export type SeenStop = ProjectionStop;
export type ProjectionsAnswer = {
  readonly builds: SeenBuild[];
  readonly stops: readonly SeenStop[];
  /** They are not among these. */
  readonly moreStops: boolean;
};
export type Ring = RingPicture;
export type HealthAnswer = { readonly findings: readonly Finding[]; readonly at: number };
export type AuditAnswer = {
  readonly acts: readonly Wire<AuditEntry>[];
  readonly next: string | null;
};
