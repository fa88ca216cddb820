/** What a turn needs of the worker that runs it. Each of these throws if the run is lost. */
import type pg from 'pg';
import type { JobDefinition } from '../../job/job.js';
import type { Logger } from '../../postgres/log/log.js';
import type { ChildrenOptions } from '../flow.js';
import type { NewMarker, NewWait } from '../marker.js';
import type { History } from '../rows/record.js';
import type { Suspended } from '../rows/suspend.js';

export interface TurnPorts {
  load(): Promise<History>;
  /** Returns why the run is to be undone, if it is. */
  record(marker: NewMarker): Promise<string | null>;
  suspend(of: {
    readonly place: number;
    readonly first: boolean;
    readonly waits: readonly NewWait[];
  }): Promise<Suspended>;
  /** From now on the run has all its attempts again, and is not suspected of having ended its workers. */
  progress(): Promise<void>;
  /** Commits what `work` writes together with the marker. Returns what stands: an earlier try may have committed after all. */
  transact(
    marker: Omit<NewMarker, 'value' | 'ms' | 'place'>,
    work: TurnTransaction,
  ): Promise<Committed & { readonly undoAsked: string | null }>;
  /** Writes the children and the open marker that counts them. */
  spawn(children: NewChildren): Promise<void>;
  /** Those that left anything: how each ended. */
  outcomes(step: string): Promise<readonly ChildOutcome[]>;
  /** Watches one try of a step: for traces and metrics. Default: nobody does. */
  trying?<Value>(step: TriedStep, work: () => Promise<Value>): Promise<Value>;
  /** Begins the run anew. */
  restart(input: unknown, version: number): Promise<void>;
  /** Resolves after so long, or when the signal is aborted. */
  pause(ms: number, signal: AbortSignal): Promise<void>;
  now(): number;
  /** For so long a body that asks for nothing new may be busy with something of its own. Default: ten seconds. */
  readonly patienceMs?: number;
}

/** A value, as JSON, and its place among all that ended. */
export interface Committed {
  readonly value: string | null;
  readonly place: number;
}

/** A transaction was rolled back because its connection was lost, or there was none: the step has done nothing, and is not to blame. */
export class ConnectionLost extends Error {
  constructor(cause: unknown) {
    super((cause as Error | null)?.message ?? String(cause), { cause });
  }
}

export type TurnTransaction = (tx: pg.PoolClient) => Promise<Committed>;

export interface TriedStep {
  /** Of an undo that of the step that it undoes. */
  readonly name: string;
  readonly kind: 'step' | 'transaction' | 'undo';
  readonly attempt: number;
}

export interface NewChildren {
  readonly name: string;
  readonly nth: number;
  readonly first: boolean;
  readonly job: JobDefinition<never, unknown>;
  readonly inputs: readonly unknown[];
  readonly options: ChildrenOptions<unknown>['options'] | undefined;
}

export interface ChildOutcome {
  readonly n: number;
  readonly outcome: string;
  readonly value: string | null;
}

/** The run, as far as its turn has to know it. */
export interface TurnOf {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly attempt: number;
  /** How often it vanished with its worker since it last got on. */
  readonly crashes: number;
  readonly maxAttempts: number;
  /** Nothing of it can be recorded yet. */
  readonly isNew: boolean;
  readonly createdAt: Date;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  readonly log: Logger;
  readonly maxBytes: number;
}
