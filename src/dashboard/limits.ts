/** Limits for their screen: what is in force, how much of it is used, and what waits for it until when. */
import { dueFirst, type Lines, type SlotRow, slotLines } from '../inspect/queue/limit-lines.js';
import {
  declaredIn,
  inForce,
  type LimitRow,
  readLimits,
  runningByType,
  runningOf,
} from '../inspect/queue/limits.js';
import { listQueues } from '../inspect/queue/queues.js';
import type { Limit } from '../job/limit.js';
import type { Executor } from '../postgres/queryable.js';

/** More keys are counted and not shown. */
const MAX_KEYS = 5;

export interface SlotLine {
  readonly jobs: number;
  /** When the first of them may start; it may have passed while the fleet was away. */
  readonly nextSlot: string;
  readonly lastSlot: string;
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
  /** Due jobs that a free place would start; null: there is no concurrency. */
  readonly due: number | null;
  /** Null: nothing waits for a slot. */
  readonly slots: SlotLine | null;
  readonly keys: readonly (SlotLine & { readonly key: string })[];
  readonly moreKeys: number;
  /** There are more jobs than were counted. */
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
    const keyed = queues.some(({ name, ordering }) => name === queue && ordering !== 'none');
    const [running, due, slots] = [
      await runningByType(db, names),
      await dueFirst(db, names, keyed),
      await slotLines(db, names),
    ];
    const dueByType = new Map(due.lines.map(({ type, jobs }) => [type, jobs]));
    for (const row of own) {
      const { type, keyed, overridden, updatedAt } = row;
      const { concurrency = null, rate = null } = inForce(row) ?? {};
      seen.push({
        ...{ queue, type, keyed, overridden, updatedAt, concurrency, rate },
        declared: declaredIn(row),
        running: runningOf(row, running),
        due: concurrency === null ? null : runningOf(row, dueByType),
        ...waiting(row, own, slots),
        more: slots.more || due.more,
      });
    }
  }
  return seen;
}

/** The rate of a queue is for those of its types that have none of their own. */
function waiting(row: LimitRow, all: readonly LimitRow[], { lines }: Lines<SlotRow>) {
  const others = all.filter(({ type, rateLimit }) => type !== null && rateLimit !== null);
  const own = lines.filter(({ type }) =>
    row.type === null ? others.every((other) => other.type !== type) : type === row.type,
  );
  if (row.rateLimit === null || own.length === 0) return { slots: null, keys: [], moreKeys: 0 };
  const keys = row.keyed
    ? own.map((line) => ({ key: line.limitKey ?? '', ...lineOf([line]) }))
    : [];
  return {
    slots: lineOf(own),
    keys: keys.slice(0, MAX_KEYS),
    moreKeys: Math.max(0, keys.length - MAX_KEYS),
  };
}

function lineOf(rows: readonly SlotRow[]): SlotLine {
  const sorted = (times: readonly string[]) =>
    times.toSorted((a, b) => Date.parse(a) - Date.parse(b));
  return {
    jobs: rows.reduce((sum, { jobs }) => sum + jobs, 0),
    nextSlot: sorted(rows.map((row) => row.nextSlot))[0] as string,
    lastSlot: sorted(rows.map((row) => row.lastSlot)).at(-1) as string,
  };
}
