/**
 * A log of what happened to the jobs of each key, in the order of the database, and the check of it.
 *
 * Handlers write a row at their start and at their end; triggers write one when a job is completed or
 * dead letters. A start also says whether the attempt owned its job at that moment: a process that was frozen
 * in the middle of things cannot know that it does not, so such starts are told apart and not hidden.
 */
import type { Ground } from './ground.js';

const LOG = `
CREATE TABLE log (
  seq bigserial PRIMARY KEY,
  kind text NOT NULL, job uuid NOT NULL, generation bigint, pid integer, key text NOT NULL, n integer,
  owned boolean
);
-- Two statements: whoever owns the job when it is looked up owned it when the number was drawn.
CREATE FUNCTION note(kind text, job uuid, generation bigint, pid integer, key text, n integer)
  RETURNS void LANGUAGE plpgsql AS $fn$
DECLARE
  place bigint := nextval('log_seq_seq');
BEGIN
  INSERT INTO log VALUES (place, $1, $2, $3, $4, $5, $6, EXISTS (
    SELECT FROM holdfast.inbox AS i
    WHERE i.id = $2 AND i.lease_generation = $3 AND i.status = 'processing'));
END
$fn$;
CREATE FUNCTION note_completed() RETURNS trigger LANGUAGE plpgsql AS $fn$
BEGIN
  INSERT INTO log (kind, job, generation, key, n)
  SELECT 'completed', a.id, a.lease_generation, a.partition_key, (a.payload ->> 'n')::int
  FROM added AS a ORDER BY (a.payload ->> 'n')::int;
  RETURN NULL;
END
$fn$;
CREATE TRIGGER noted AFTER INSERT ON holdfast.inbox_archive REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION note_completed();
CREATE FUNCTION note_dead_letter() RETURNS trigger LANGUAGE plpgsql AS $fn$
BEGIN
  INSERT INTO log (kind, job, generation, key, n)
  VALUES ('dead_letter', NEW.id, NEW.lease_generation, NEW.partition_key, (NEW.payload ->> 'n')::int);
  RETURN NULL;
END
$fn$;
CREATE TRIGGER noted AFTER UPDATE ON holdfast.inbox FOR EACH ROW
  WHEN (NEW.status = 'dead_letter') EXECUTE FUNCTION note_dead_letter()`;

export interface LogRow {
  readonly kind: 'start' | 'end' | 'failed' | 'completed' | 'dead_letter';
  readonly job: string;
  readonly generation: number;
  /** Null in the rows of the triggers. */
  readonly pid: number | null;
  readonly key: string;
  /** The number of the job within its key, from 0. */
  readonly n: number;
  readonly owned: boolean | null;
}

/** To be called before workers start. */
export async function keepLog(db: Ground): Promise<void> {
  await db.pool.query(LOG);
  await withoutDisk(db);
}

/** The database does not crash in this test: sessions that start from now on do not wait for its disk. */
export async function withoutDisk(db: Ground): Promise<void> {
  const [row] = await db.rows<{ name: string }>('SELECT current_database() AS name');
  await db.pool.query(`ALTER DATABASE "${row?.name}" SET synchronous_commit = off`);
}

export function readLog(db: Ground): Promise<LogRow[]> {
  return db.rows<LogRow>(
    'SELECT kind, job, generation::int, pid, key, n, owned FROM log ORDER BY seq',
  );
}

export interface Checked {
  /** What broke the order, in words; empty when it was kept. */
  readonly broken: string[];
  /** How many jobs of each key were completed or dead letters. */
  readonly ended: ReadonlyMap<string, number>;
  /** Attempts beyond the first. */
  readonly repeats: number;
  /** Starts of attempts that owned their job no more. */
  readonly stale: readonly LogRow[];
}

/**
 * Goes through the log. `crashed` are processes that were killed or frozen: what they had begun may be
 * begun again elsewhere, and only they may start what they do not own.
 */
export function checkOrder(log: readonly LogRow[], crashed: ReadonlySet<number>): Checked {
  const keys = new Map<string, KeyOrder>();
  for (const row of log) {
    const order = keys.get(row.key) ?? new KeyOrder(row.key, crashed);
    keys.set(row.key, order);
    order.take(row);
  }
  const all = [...keys.values()];
  return {
    broken: all.flatMap(({ broken }) => broken),
    ended: new Map([...keys].map(([key, { done }]) => [key, done])),
    repeats: all.reduce((sum, { repeats }) => sum + repeats, 0),
    stale: all.flatMap(({ stale }) => stale),
  };
}

interface Attempt {
  readonly pid: number;
  readonly generation: number;
  readonly kind: 'start' | 'end' | 'failed';
}

class KeyOrder {
  readonly broken: string[] = [];
  readonly stale: LogRow[] = [];
  repeats = 0;
  /** Jobs before this one are completed or dead letters. */
  done = 0;
  readonly #key: string;
  readonly #crashed: ReadonlySet<number>;
  /** The last attempt of every job that has begun and not ended. */
  readonly #open = new Map<number, Attempt>();
  readonly #begun = new Set<number>();

  constructor(key: string, crashed: ReadonlySet<number>) {
    this.#key = key;
    this.#crashed = crashed;
  }

  take(row: LogRow): void {
    if (row.kind === 'start') this.#started(row);
    else if (row.kind === 'end' || row.kind === 'failed') this.#handlerEnded(row);
    else this.#settled(row);
  }

  #started(row: LogRow): void {
    const { n, generation } = row;
    const pid = row.pid as number;
    if (!row.owned) {
      this.stale.push(row);
      if (!this.#crashed.has(pid)) this.#say(row, 'by a process that did not own it');
      return;
    }
    if (n < this.done) this.#say(row, 'after it had been completed');
    // In a run the next one starts when the handler before it has succeeded, in the same process.
    for (let before = this.done; before < n; before++) {
      const attempt = this.#open.get(before);
      if (attempt?.kind !== 'end' || attempt.pid !== pid) {
        this.#say(row, `before ${before} was done (${JSON.stringify(attempt ?? null)})`);
      }
    }
    for (const [other, attempt] of this.#open) {
      const underWay = attempt.kind === 'start' || (other > n && attempt.kind === 'end');
      if (underWay && attempt.pid !== pid && !this.#crashed.has(attempt.pid)) {
        this.#say(row, `while ${other} was under way in process ${attempt.pid}`);
      }
      if (attempt.kind === 'start' && attempt.pid === pid && other !== n) {
        if (!this.#crashed.has(pid)) this.#say(row, `beside ${other} in the same process`);
      }
    }
    if (this.#begun.has(n)) this.repeats++;
    this.#begun.add(n);
    this.#open.set(n, { pid, generation, kind: 'start' });
  }

  #handlerEnded({ n, pid, generation, kind }: LogRow): void {
    const attempt = this.#open.get(n);
    // A zombie's word for an attempt that is not the last one counts for nothing.
    if (attempt?.generation !== generation || attempt.pid !== pid) return;
    this.#open.set(n, { ...attempt, kind: kind as 'end' | 'failed' });
  }

  #settled(row: LogRow): void {
    if (row.n !== this.done) this.#say(row, `and not ${this.done}, which is next`);
    const attempt = this.#open.get(row.n);
    // Not what this attempt did: a zombie has settled the job under its owner's hands.
    if (attempt?.kind === 'start') this.#say(row, `under way in process ${attempt.pid}`);
    this.done = row.n + 1;
    this.#open.delete(row.n);
  }

  #say({ kind, n, generation, pid }: LogRow, what: string): void {
    const who = pid === null ? '' : ` in process ${pid}`;
    this.broken.push(`${this.#key}: ${n} (generation ${generation}): ${kind}${who} ${what}`);
  }
}
