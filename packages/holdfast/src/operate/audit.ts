/**
 * The audit: one row for every act of a person, in the transaction of the act. Of an act over many jobs the first batch
 * writes the row, and every further one adds to its count. Who and when are the database's own words (columns with
 * defaults). Neither payloads nor what was changed inside of them are kept.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, statement, uuid } from '../postgres/statement.js';

export const ACTS = [
  ...(['retry', 'discard', 'cancel', 'update', 'replay', 'prune', 'pause', 'resume'] as const),
  ...(['drain', 'create_queue', 'set_queue', 'drop_queue'] as const),
  ...(['pause_schedule', 'resume_schedule', 'run_schedule', 'delete_schedule'] as const),
  ...(['set_limit', 'reset_limit', 'remove_limit', 'import', 'signal'] as const),
  ...(['add_webhook', 'set_webhook', 'rotate_webhook', 'enable_webhook'] as const),
  ...(['disable_webhook', 'remove_webhook', 'resume_projection', 'skip_event'] as const),
  ...(['rebuild_projection', 'promote_projection', 'remove_projection'] as const),
  ...(['rebase_projection'] as const),
] as const;

/** What an act in the audit is called. */
export type ActName = (typeof ACTS)[number];

/** Who acts, as far as he says, and why. */
export interface ActWords {
  readonly actor?: string | null | undefined;
  readonly reason?: string | null | undefined;
}

export interface Act extends ActWords {
  readonly act: ActName;
  /** Null: not about one queue. */
  readonly queue: string | null;
  /** Which jobs. Without it, the ids of those that moved are kept. */
  readonly filter?: object | null;
  readonly changes?: object | null;
}

/** More ids are only counted. */
const MAX_IDS = 100;

export const recordAct = statement({
  name: 'record_act',
  text: `
INSERT INTO holdfast.audit (act, queue, jobs, filter, changes, actor, reason)
VALUES ($1::text, $2::text, $3::text::bigint, $4::text::jsonb, $5::text::jsonb,
  left($6::text, 200), left($7::text, 2000))
RETURNING id`,
  columns: { id: uuid },
});

export const countAct = statement({
  name: 'count_act',
  text: 'SELECT holdfast.count_act($1::uuid, $2::bigint) AS counted',
  columns: { counted: bool },
});

const json = (value: object | null | undefined) => (value ? JSON.stringify(value) : null);

/** The row of one act. What moved nothing leaves none. */
export class ActRecord {
  readonly #act: Act;
  #id: string | null = null;

  constructor(act: Act) {
    this.#act = act;
  }

  /** A batch moved so many jobs, or these. */
  async addJobs(db: Executor, names: Names, moved: number | readonly string[]): Promise<void> {
    const jobs = typeof moved === 'number' ? moved : moved.length;
    if (jobs === 0) return;
    if (this.#id !== null) {
      const [row] = await db.run(countAct, names, [this.#id, jobs]);
      // The transaction that wrote the row may have been rolled back.
      if (row?.counted) return;
    }
    const ids = typeof moved === 'number' ? null : idsOf(moved);
    await this.#write(db, names, jobs, this.#act.filter ?? ids);
  }

  /** It was not about jobs. */
  async add(db: Executor, names: Names): Promise<void> {
    await this.#write(db, names, null, this.#act.filter);
  }

  async #write(db: Executor, names: Names, jobs: number | null, filter?: object | null) {
    const { act, queue, changes, actor, reason } = this.#act;
    const words = [json(filter), json(changes), actor ?? null, reason ?? null];
    const [row] = await db.run(recordAct, names, [act, queue, jobs?.toString() ?? null, ...words]);
    this.#id = row?.id ?? null;
  }
}

function idsOf(ids: readonly string[]): object {
  const more = ids.length - MAX_IDS;
  return { ids: ids.slice(0, MAX_IDS), ...(more > 0 && { andMore: more }) };
}
