/** What the server sends, as it arrives: a Date is a text by then. */

import type {
  AuditEntry,
  DeadLetterGroup,
  Explanation,
  Finding,
  Job,
  JobSummary,
  Schedule,
} from 'holdfast';
import type { QueueRow } from 'holdfast/internal';
import type { SeenLimit } from '../../src/read/limits.js';
import type { RingPicture } from '../../src/read/ring.js';
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
export type JobAnswer = {
  readonly job: ShownJob;
  readonly explanation: Omit<Explanation, 'job'>;
};
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
export type Ring = RingPicture;
export type HealthAnswer = { readonly findings: readonly Finding[]; readonly at: number };
export type AuditAnswer = {
  readonly acts: readonly Wire<AuditEntry>[];
  readonly next: string | null;
};
