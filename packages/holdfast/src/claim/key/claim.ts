/**
 * Claiming from a queue that is read by key: the head of a key, and what follows it without a gap (a run).
 *
 * The statement walks the index from key to key in small chunks; a key that is blocked or long is stepped over. It takes a
 * run only if it can lock every row of it, in the very version that its snapshot showed, and the row behind it too. That is
 * the whole of the safety. A job that is gone never comes back, and one that is put back in line gets a new position; so the
 * head of a key in the snapshot is its head as long as it stands, and whoever claims a job behind it must lock it first. Two
 * claimers of one key therefore want the same row, whatever they believe of the ring: one finds it locked or changed, and
 * takes nothing of that key. Jobs whose enqueues overlapped may be seen late, ahead of a claim that did not see them: they
 * wait for it if it stands within the chunk or right behind their run, and may run beside it if not.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int4, int8, json, MAX_ROWS, type Row, text } from '../../postgres/statement.js';
import { HELD_BACK, KEPT_AND_ALLOWED, LAST_ALLOWED, REFUSED_JOBS } from '../allowed.js';
import type { WalkStop } from '../source.js';
import {
  arraysOf,
  byText,
  type Claimed,
  type ClaimedJob,
  type ClaimTerms,
  type ColumnsOf,
  claim,
  claimStatement,
  NEWS_HEAD,
  newsIn,
  type QueueNews,
  type Versions,
  versionsOf,
} from '../take.js';
import { KEY_WALK } from './walk.js';

/** A stretch of the index: the keys after one place and before another. No key is empty. */
export interface KeyStretch {
  readonly bucket: number;
  readonly afterKey: string;
  readonly untilBucket: number;
  readonly untilKey: string;
}

/** Behind the jobs of a key. */
export interface KeyPlace {
  readonly bucket: number;
  readonly key: string;
}

/** What a claim asks of a queue with keys, in order or in turns. */
export interface KeysRequest extends ClaimTerms {
  readonly versions: Versions;
  /** Read one after the other. No two of them may have a key in common. */
  readonly stretches: readonly KeyStretch[];
  /** Also say what `QueueNews` has. */
  readonly ask: boolean;
  /** Say which heads are due within this time. */
  readonly soonMs?: number;
}

export interface KeyedClaimRequest extends KeysRequest {
  /** At most so many jobs of one key. */
  readonly run: number;
  /** After so many rows it stops, once it has seen what stands behind the last job that it takes. */
  readonly maxRows?: number;
}

/** `stop`: the stretch, the bucket and the key. `due`: the heads that are due soon. */
export const keysHead = (stop: readonly [string, string, string], wanted: string, due: string) =>
  ({
    stop_stretch: [stop[0], int4.orNull],
    stop_bucket: [stop[1], int4.orNull],
    stop_key: [stop[2], text.orNull],
    wanted: [`${wanted} - ${REFUSED_JOBS}`, int8.or(0)],
    held_back: [HELD_BACK, text.orNull],
    last_allowed: [LAST_ALLOWED, json.orNull],
    due: [`(SELECT array_to_string((array_agg(d.due))[1:200], ',') FROM ${due})`, text.orNull],
    ...NEWS_HEAD,
  }) as const;

/** With OFFSET nothing is read unless it is asked for. */
export const KEYS_NEWS = `LEFT JOIN LATERAL (
  SELECT NULL::bigint AS due_in_ms, EXISTS (SELECT FROM holdfast.inbox AS s
      WHERE s.crashes > 1 AND s.status = 'pending' AND s.available_at <= now()) AS suspects,
    (extract(epoch FROM now() - q.maintained_at) * 1000)::bigint AS maintained_ms,
    q.max_pending IS NOT NULL AND coalesce(q.recount_at <= now(), true) AS recount
  FROM holdfast.queues AS q WHERE q.name = 'inbox' AND $15::boolean OFFSET 0
) AS d ON true`;

export const claimKeyedJobs = claimStatement({
  name: 'claim_keyed',
  ctes: KEY_WALK,
  taking: `WHERE i.ctid = ANY (ARRAY(${KEPT_AND_ALLOWED}))`,
  head: keysHead(
    ['s.stretch', 'coalesce(cut.partition_bucket, s.bucket)', 'coalesce(cut.partition_key, s.key)'],
    's.wanted',
    'walk AS w CROSS JOIN LATERAL unnest(w.due) AS d(due)',
  ),
  joins: `-- The chunk with which it had enough, or the last: one more may have been read for what stands behind.
LEFT JOIN (
  SELECT w.* FROM walk AS w
  ORDER BY w.wanted < w.most, CASE WHEN w.wanted < w.most THEN -w.step ELSE w.step END
  LIMIT 1
) AS s ON true
-- The last chunk may hold more than was asked for: then the walk ended with the last job that it took.
LEFT JOIN holdfast.inbox AS cut
  ON s.wanted > s.most AND cut.ctid = s.places[cardinality(s.places)]
${KEYS_NEWS}`,
});

export interface DueHead {
  readonly inMs: number;
  readonly bucket: number;
  /** All jobs of this type wait. */
  readonly type?: string;
}

export interface KeyedClaim extends Claimed {
  /** Null: everything that was asked for was read. */
  readonly stop: WalkStop | null;
  /** How many jobs were ready and allowed. More than came back: somebody else was claiming them just then. */
  readonly wanted: number;
  /** Jobs that no limit allows now: when they may be asked for, or -1 for when a permit is free. */
  readonly heldBack: readonly DueHead[];
  /** The place of the last job that a limit allows; `shared`: another key of its bucket must wait. */
  readonly lastAllowed: (KeyPlace & { readonly shared: boolean }) | null;
  /** Heads of keys that were read and are due soon. */
  readonly due: readonly DueHead[];
  /** Null unless it was asked for. */
  readonly news: QueueNews | null;
}

/** The jobs of a key stand together, in its order. `cursorPosition` is a job's position. */
export async function claimKeyed(
  db: Executor,
  names: Names,
  request: KeyedClaimRequest,
): Promise<KeyedClaim> {
  const params = [
    ...versionsOf(request.versions),
    ...arraysOf(request.stretches, 'bucket', 'afterKey', 'untilBucket', 'untilKey'),
    request.run,
    request.maxRows ?? MAX_ROWS,
    request.ask,
    request.soonMs ?? 0,
  ];
  const claimed = await claim(db, names, claimKeyedJobs, request, params, byKey);
  return keysIn(request.stretches, claimed, (_, key) => key);
}

export function keysIn<R extends ClaimedJob & Row<ColumnsOf<ReturnType<typeof keysHead>>>>(
  stretches: readonly KeyStretch[],
  { head, ...claimed }: Claimed & { readonly head: R; readonly jobs: R[] },
  place: (group: string, key: string) => string,
) {
  const { stopStretch: stretch, stopBucket: bucket, stopKey: key, wanted } = head;
  const inside = stretch !== null && stretch <= stretches.length && bucket !== null && key !== null;
  return {
    ...claimed,
    stop: inside ? { stretch: stretch - 1, bucket, key } : null,
    wanted,
    heldBack: dueHeads(head.heldBack),
    lastAllowed: lastAllowedIn(head.lastAllowed, place),
    due: dueHeads(head.due),
    news: newsIn(head),
  };
}

/** As a claim by key writes it. `place`: where the walk stands behind a key. */
function lastAllowedIn(
  text: string | null,
  place: (group: string, key: string) => string,
): KeyedClaim['lastAllowed'] {
  if (text === null) return null;
  const [bucket, group, key, shared] = JSON.parse(text);
  return { bucket, key: place(group, key), shared };
}

/** As the statement writes them: milliseconds, a bucket and perhaps a type. */
function dueHeads(text: string | null): DueHead[] {
  return (text ?? '').split(',').flatMap((head) => {
    const [inMs, bucket, ...type] = head.split(':');
    if (inMs === undefined || bucket === undefined) return [];
    const found = { inMs: Number(inMs), bucket: Number(bucket) };
    return [type.length > 0 ? { ...found, type: type.join(':') } : found];
  });
}

/** Keys in any order, and the jobs of each in its own. */
const byKey = (a: ClaimedJob, b: ClaimedJob) =>
  a.partitionBucket - b.partitionBucket ||
  byText(a.partitionKey, b.partitionKey) ||
  a.cursorPosition - b.cursorPosition;
