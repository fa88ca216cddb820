/** A job whose type, or whose queue, is limited in the whole fleet: no place is free, or its slot has not come. */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, statement } from '../../postgres/statement.js';
import type { ShownJob } from '../job/show.js';
import { inForce, type LimitRow, readLimits, runningByType, runningOf } from '../queue/limits.js';
import { instant } from '../reading/columns.js';
import { many, span } from '../reading/words.js';
import { clock, type Reason, sinceMs } from './reasons.js';
import type { Situation } from './situation.js';

export const readSlot = statement({
  name: 'explain_slot',
  text: `
SELECT coalesce(i.limit_slot = i.available_at, false) AS has_slot,
  n.next_start, greatest(n.next_start, n.slot_tat) AS next_slot
FROM holdfast.inbox AS i
LEFT JOIN LATERAL (
  -- From then on one may start. It has its own rate if its type's has keys.
  SELECT r.slot_tat, r.started_tat
    - (l.rate_burst - 1) * (extract(epoch FROM l.rate_per) / l.rate_limit)::double precision * interval '1 second'
  FROM holdfast.limits AS l
  JOIN holdfast.rates AS r ON r.limit_id = l.id AND r.key = CASE WHEN l.keyed THEN coalesce(i.limit_key, '') ELSE '' END
  WHERE l.queue = 'inbox' AND (l.type IS NULL OR l.type = i.type) AND l.rate_limit IS NOT NULL
  ORDER BY l.type NULLS LAST LIMIT 1
) AS n(slot_tat, next_start) ON true
WHERE i.id = $1::uuid`,
  columns: { has_slot: bool, next_start: instant, next_slot: instant },
});

export interface LimitSituation {
  /** Those that hold for the job, with how many run under each. */
  readonly limits: readonly { readonly row: LimitRow; readonly running: number }[];
  /** It waits for a slot of a rate. */
  readonly hasSlot: boolean;
  /** From when on one may start; null: nobody has waited lately. */
  readonly nextStart: string | null;
  /** The next free slot of those who wait in line; null: nobody has waited lately. */
  readonly nextSlot: string | null;
}

/** Null: nothing limits it. */
export async function limitSituation(
  db: Executor,
  names: Names,
  job: ShownJob,
): Promise<LimitSituation | null> {
  const rows = await readLimits(db, names, names.queue);
  const own = rows.filter(
    (row) => (row.type === null || row.type === job.type) && inForce(row) !== null,
  );
  if (own.length === 0) return null;
  const running = await runningByType(db, names);
  const [slot] = await db.run(readSlot, names, [job.id]);
  return {
    limits: own.map((row) => ({ row, running: runningOf(row, running) })),
    hasSlot: slot?.hasSlot ?? false,
    nextStart: slot?.nextStart ?? null,
    nextSlot: slot?.nextSlot ?? null,
  };
}

const whose = ({ type, queue }: LimitRow) =>
  type === null ? `jobs of queue "${queue}"` : `"${type}" jobs`;
const commandFor = ({ type, queue }: LimitRow) =>
  `holdfast limits set${type === null ? '' : ` ${type}`}${queue === 'inbox' ? '' : ` --queue ${queue}`}`;

function rateText(row: LimitRow): string {
  const { rateLimit, ratePerMs, keyed } = row;
  const each = keyed ? ' of each key' : '';
  return `at most ${(rateLimit ?? 0).toLocaleString('en')} ${whose(row)}${each} start in ${span(ratePerMs ?? 0)}, in the whole fleet`;
}

/** It waits for the slot that its rate gave it, or is due and no token is there yet. */
export function rateLimited(situation: Situation): Reason | null {
  const { limits: found, job } = situation;
  const rates = found?.limits.filter(({ row }) => row.rateLimit !== null) ?? [];
  // A job has one rate: that of its type, or else that of its queue.
  const limit = rates.find(({ row }) => row.type !== null) ?? rates[0];
  if (!found || !limit) return null;
  const waitsMs = -sinceMs(situation, job.runAt);
  const tokenMs = found.nextStart === null ? 0 : -sinceMs(situation, found.nextStart);
  const fix = `${commandFor(limit.row)} --rate N/TIME lets more start`;
  if (waitsMs > 0) {
    if (!found.hasSlot) return null;
    return {
      code: 'rate_limited',
      text: `It waits for its slot at ${clock(job.runAt)} (in ${span(waitsMs)}): ${rateText(limit.row)}.`,
      fix,
    };
  }
  if (tokenMs <= 0) return null;
  // A queue that is read by key gives none.
  if (!found.hasSlot && !situation.keyed) {
    const slotMs = -sinceMs(situation, found.nextSlot);
    return {
      code: 'rate_limited',
      text:
        `It is due and has no slot yet: it gets one behind those that wait, which is not before ` +
        `${clock(found.nextSlot)} (in ${span(slotMs)}): ${rateText(limit.row)}.`,
      fix,
    };
  }
  return {
    code: 'rate_limited',
    text: `It is due, and the next job may start at ${clock(found.nextStart)} (in ${span(tokenMs)}): ${rateText(limit.row)}.`,
    fix,
  };
}

/** All places are taken. */
export function limitReached({ limits: found }: Situation): Reason | null {
  const full = found?.limits.find(
    ({ row, running }) => row.concurrency !== null && running >= row.concurrency,
  );
  if (!full) return null;
  const { row, running } = full;
  const most = row.concurrency ?? 0;
  return {
    code: 'limit_reached',
    text:
      `It waits for a free place: ${running.toLocaleString('en')} of ${many(most, 'place')} for ${whose(row)} ` +
      'are taken in the whole fleet.',
    fix: `Wait until one of them ends, or ${commandFor(row)} --concurrency N`,
  };
}
