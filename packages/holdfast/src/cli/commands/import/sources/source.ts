/** What an import reads, whichever queue it comes from. Times are ISO texts; null: it was not said there. */

export interface SourceJob {
  /** One job of the source, for ever: the import key is made of it. */
  readonly id: string;
  /** The queue, task or name under which the report counts it. */
  readonly from: string;
  /** Under which --map finds it, the most exact first. The last one is its type unless --map says another. */
  readonly names: readonly string[];
  readonly state: string;
  /** JSON text; null: it was too large to read. */
  readonly payload: string | null;
  readonly partitionKey: string | null;
  readonly group: string | null;
  /** 1 to 4. */
  readonly priority: number;
  readonly runAt: string | null;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly error: string | null;
  /** It gave up there: here it is a dead letter. */
  readonly dead: boolean;
  /** Its key there, and which later jobs that key kept out. */
  readonly once: {
    readonly key: string;
    readonly as: 'idempotency' | 'pending' | 'running';
  } | null;
  readonly headers: Record<string, string> | null;
  /** Why it must stay there. */
  readonly stays: string | null;
  /** What is lost or means something else here. */
  readonly warnings: readonly string[];
}

export interface SourceSchedule {
  readonly id: string;
  readonly from: string;
  readonly names: readonly string[];
  /** What tells it from others of its type. */
  readonly suffix: string;
  readonly cron: string | null;
  readonly everyMs: number | null;
  readonly timezone: string | null;
  readonly payload: unknown;
  readonly partitionKey: string | null;
  readonly priority: number;
  readonly maxAttempts: number | null;
  readonly catchUp: 'none' | 'last' | 'all';
  readonly stays: string | null;
  readonly warnings: readonly string[];
}

/** Jobs that nothing reads: they only are counted. */
export interface Staying {
  readonly from: string;
  readonly state: string;
  readonly jobs: number;
  readonly why: string;
}

/** What is not moved and belongs to no job: said with how many have it. */
export interface Loss {
  readonly text: string;
  readonly noun: string;
}

export interface Query {
  query(
    text: string,
    params?: unknown[],
  ): Promise<{ readonly rows: Record<string, string | null>[] }>;
}

/** Jobs that the source holds fast while they are moved. */
export interface Batch {
  readonly jobs: readonly SourceJob[];
  /** The transaction that holds them, if Holdfast is in the same database. */
  readonly tx: Query | null;
  /** Takes these out of the source; returns how many it could not take out. */
  readonly remove: (ids: readonly string[]) => Promise<number>;
}

/** Moves a batch. What it returns is called when that has committed, and says whether to go on. */
export type Work = (batch: Batch) => Promise<() => boolean>;

export interface Source {
  /** Such as `pg-boss, schema version 24, in "pgboss"`. */
  readonly title: string;
  /** The rights that it takes. */
  readonly needs: string;
  /** A job may run there after it is here: no transaction spans both. */
  readonly apart: boolean;
  readonly warnings: readonly string[];
  readonly losses: () => Promise<readonly Loss[]>;
  readonly staying: () => Promise<readonly Staying[]>;
  readonly schedules: () => Promise<readonly SourceSchedule[]>;
  /** In the transaction `tx` of the target, if both are in one database. */
  readonly removeSchedule: (id: string, tx: Query) => Promise<void>;
  /** Runs `work` for every batch, in the order in which the source would run them. */
  readonly each: (work: Work) => Promise<void>;
  readonly close: () => Promise<void>;
}

export interface Wanted {
  /** Only jobs of these names; empty: all. */
  readonly only: readonly string[];
  readonly failed: boolean;
  /** Nothing will be written: nothing need be locked. */
  readonly dry: boolean;
  readonly batch: number;
  readonly maxPayloadBytes: number;
  readonly crontab: string | undefined;
}
