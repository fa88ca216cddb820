/**
 * One round of the doctor. Each check has a transaction and a time limit of its own; one that fails is a finding under its
 * name, and the others go on.
 */
import type pg from 'pg';
import { type Finding, lines, note, problem } from '../../inspect/doctor/doctor.js';
import { TO_END } from '../../inspect/reading/locks.js';
import { isLocked, type LockHolders, reading, readingOn } from '../../inspect/reading/reading.js';
import { isOutage } from '../../postgres/connect/transient.js';
import type { Executor } from '../../postgres/queryable.js';

/** For one statement of a check. */
const LIMITS = { lockMs: 500, limitMs: 5_000 } as const;
/** A database that was away so often is not asked again and again. */
const MAX_OUTAGES = 2;

/** Where to look. */
export interface DoctorTarget {
  /** Of two connections or more. */
  readonly pool: pg.Pool;
  readonly schema: string;
}

type Found = Finding | readonly Finding[] | null;

export class Round {
  readonly findings: Finding[] = [];
  readonly #target: DoctorTarget;
  readonly #holders: LockHolders = {};
  #outages = 0;

  constructor(target: DoctorTarget) {
    this.#target = target;
  }

  add(findings: Finding | readonly Finding[]): void {
    this.findings.push(...[findings].flat());
  }

  /** Null: it failed, and that is noted under the name of the check. */
  read<Value>(check: string, work: (db: Executor) => Promise<Value>): Promise<Value | null> {
    return this.attempt(check, () => this.reading(work));
  }

  /** What fails is thrown. */
  reading<Value>(work: (db: Executor) => Promise<Value>): Promise<Value> {
    return reading(this.#target.pool, work, this.#options);
  }

  /** Adds what the check finds. */
  async check(name: string, work: (db: Executor) => Promise<Found>): Promise<void> {
    this.add((await this.read(name, work)) ?? []);
  }

  /** With the client itself. */
  readOn<Value>(
    check: string,
    work: (client: pg.PoolClient) => Promise<Value>,
  ): Promise<Value | null> {
    const { pool } = this.#target;
    return this.attempt(check, () => readingOn(pool, work, this.#options));
  }

  get #options() {
    return { schema: this.#target.schema, holders: this.#holders, ...LIMITS };
  }

  /** What minds its limits itself. */
  async attempt<Value>(check: string, work: () => Promise<Value>): Promise<Value | null> {
    try {
      return await work();
    } catch (error) {
      if (isOutage(error) && ++this.#outages > MAX_OUTAGES) throw error;
      this.add(failed(check, error));
      return null;
    }
  }
}

const UNKNOWN = 'Whether it is well is not known.';

function failed(check: string, error: unknown): Finding {
  const code = (error as { code?: unknown } | null)?.code;
  const message = error instanceof Error ? error.message : String(error);
  const [said, ending] = message.replace(' Nothing was done:', '').split(TO_END);
  const text = `It could not be looked at: ${said?.replace(/\.?$/, '.')}`;
  if (code === '42501')
    return note(check, text, UNKNOWN, 'Run the doctor as the owner of the schema.');
  if (isLocked(error) || code === '55P03') {
    const end = 'End who holds the lock (see "locks"), then try again';
    return problem(check, text, UNKNOWN, ending ? lines(`${end}:`, ending) : `${end}.`);
  }
  if (code === '57014') {
    const why = `${UNKNOWN} The server is slow, or the table is larger than any index of it helps with.`;
    return problem(check, text, why, 'See what else is said here, then try again.');
  }
  return problem(check, text, UNKNOWN, 'Mend what the error says, then try again.');
}
