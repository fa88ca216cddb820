/** What the doctor says. Nothing here asks: facts and limits are parameters, so a judgement is tried without waiting for the fault. */
export type Level = 'ok' | 'note' | 'problem';

/** One answer of `hf.doctor()`. */
export interface Finding {
  /** Which question this answers, such as `fsync`. */
  readonly check: string;
  readonly level: Level;
  readonly text: string;
  /** Null when all is well. */
  readonly why: string | null;
  /** Several lines where there is something to paste: each statement on a line of its own, or a whole function. */
  readonly fix: string | null;
  /** Its text quotes an error of jobs of this type. */
  readonly quotes?: {
    readonly queue: string;
    readonly type: string;
    /** The same text without the error. */
    readonly without: string;
  };
}

export const LIMITS = {
  /** A transaction that is open for longer holds back vacuum. */
  horizonMs: 5 * 60_000,
  /** A standby, or a slot that is read, may hold it back by so many transactions. */
  horizonXids: 100_000,
  /** Waits for a lock that are shorter are everyday. */
  waitMs: 1_000,
  /** A lock that keeps others from writing may be held for so long while nobody waits for it. */
  lockedMs: 5_000,
  /** A session may be idle for so long in a transaction that has touched a queue. */
  idleMs: 60_000,
  /** Transaction ids since the oldest row was frozen; writes stop at about two billion. */
  wraparoundXids: 1_000_000_000,
  /** A due job that waits for longer is a sign that something is wrong. */
  oldestMs: 5 * 60_000,
  /** What a rate lets start may take so long to start all of it. */
  emptyMs: 60 * 60_000,
  /** Due work has stopped when a job has been due for longer, and nothing of its type has started for `quietMs`. */
  stoppedMs: 30_000,
  quietMs: 60_000,
  /** A due job of a type that nobody handles may wait for so long: a deploy may bring its worker. */
  unhandledMs: 60_000,
  /** A schedule may be due for so long before its job is written. */
  scheduleMs: 60_000,
  roundTripMs: 100,
  skewMs: 2_000,
  /** Of the connections that the server allows. */
  connectionShare: 0.8,
  /** Fewer failed attempts in the last minute are everyday. */
  failedAttempts: 10,
  /** So many of the attempts may fail; more than half are a problem. */
  failedShare: 0.2,
  deadRows: 100_000,
  deadLetters: 1_000,
  /** A worker that was not seen for longer, and a queue without maintenance for longer. */
  silentMs: 30_000,
  /** A heartbeat may be late by so much, whatever its interval is; by two intervals anyway. */
  lateMs: 5_000,
  /** So many workers of one host that vanished within this time are a loop. */
  vanished: 3,
  vanishedMs: 10 * 60_000,
  maintenanceMs: 5 * 60_000,
};

export type Limits = Readonly<typeof LIMITS>;

const of =
  (level: Level) =>
  (check: string, text: string, why: string, fix: string): Finding => ({
    check,
    level,
    text,
    why,
    fix,
  });

export const note = of('note');
export const problem = of('problem');
export const ok = (check: string, text: string): Finding => {
  return { check, level: 'ok', text, why: null, fix: null };
};

/** Words first, then what can be pasted, each statement on its own line. */
export const lines = (...parts: readonly string[]): string => parts.join('\n');

/** DDL waits for the table, and everybody waits behind it: so it gives up soon and is tried again. */
export const PATIENCE = "SET lock_timeout = '2s';";

export const LOSES = 'A job that enqueue has accepted can be gone after a crash of the server.';
