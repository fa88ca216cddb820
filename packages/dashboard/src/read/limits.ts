/** Limits for their screen: what is in force, how much of it is used, what waits under it and until when. */
import type { Limit } from 'holdfast';
import type { Executor } from 'holdfast/internal';
import {
  type DueLine,
  declaredIn,
  dueOf,
  dueUnder,
  inForce,
  jobsOf,
  type LimitRow,
  limitStates,
  listQueues,
  readLimits,
} from 'holdfast/internal';

const MAX_KEYS = 5;

export interface WaitingLine {
  readonly jobs: number;
  /** When the next of them may start; null: its rate lets one start now, or it has none. */
  readonly opensAt: string | null;
}

export interface SeenLimit {
  readonly queue: string;
  /** Null: all types of the queue together. */
  readonly type: string | null;
  readonly concurrency: number | null;
  readonly rate: Limit['rate'];
  readonly keyed: boolean;
  readonly declared: Limit | null;
  readonly overridden: boolean;
  readonly running: number;
  readonly waiting: WaitingLine;
  /** Of a rate with keys, those with the most jobs. */
  readonly keys: readonly (WaitingLine & { readonly key: string })[];
  readonly moreKeys: number;
  readonly more: boolean;
  readonly updatedAt: number;
}

export async function seenLimits(db: Executor, schema: string): Promise<SeenLimit[]> {
  const rows = await readLimits(db, { schema, queue: 'inbox' }, null);
  const queues = rows.length === 0 ? [] : await listQueues(db, schema);
  const seen: SeenLimit[] = [];
  for (const queue of new Set(rows.map((row) => row.queue))) {
    const names = { schema, queue };
    const own = rows.filter((row) => row.queue === queue);
    const byKey = queues.some(({ name, ordering }) => name === queue && ordering !== 'none');
    const states = await limitStates(db, names);
    const due = await dueUnder(db, names, own, byKey);
    for (const row of own) {
      const { type, keyed, overridden, updatedAt } = row;
      const { concurrency = null, rate = null } = inForce(row) ?? {};
      seen.push({
        ...{ queue, type, keyed, overridden, updatedAt, concurrency, rate },
        declared: declaredIn(row),
        running: states.get(type)?.running ?? 0,
        ...waitingUnder(row, dueOf(row, due, concurrency === null ? own : undefined)),
      });
    }
  }
  return seen;
}

function waitingUnder({ keyed, rateLimit }: LimitRow, lines: readonly DueLine[]) {
  const opening = rateLimit === null ? [] : lines.flatMap(({ opensAt }) => opensAt ?? []);
  const waiting = {
    jobs: jobsOf(lines),
    // A token for one key is enough.
    opensAt: opening.length < lines.length ? null : (opening.sort()[0] ?? null),
  };
  const keys = keyed
    ? lines.map(({ limitKey, jobs, opensAt }) => ({ key: limitKey ?? '', jobs, opensAt }))
    : [];
  return {
    waiting,
    keys: keys.slice(0, MAX_KEYS),
    moreKeys: Math.max(0, keys.length - MAX_KEYS),
    more: lines.some(({ more }) => more),
  };
}
