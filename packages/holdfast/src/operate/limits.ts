/**
 * Setting limits: what code declares, and what an operator sets beside it.
 *
 * A worker declares the limits of its types when it starts, and only what differs is written. The function in the
 * database keeps both apart: an operator's value stays in force through deploys, until it is reset.
 */
import { HoldfastError } from '../job/errors/errors.js';
import type { Limit } from '../job/limit.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, statement } from '../postgres/statement.js';

export const setLimit = statement({
  name: 'set_limit',
  text: `
SELECT holdfast.inbox_set_limit($1::text, $2::text, $3::integer, $4::integer,
  $5::bigint * interval '1 millisecond', $6::integer, $7::boolean) AS changed
-- The queue is not dropped meanwhile.
FROM (SELECT FROM holdfast.queues AS q WHERE q.name = 'inbox' FOR KEY SHARE) AS q`,
  columns: { changed: bool },
});

/**
 * `declare`: what code says. `set`: an operator's value, in force until it is reset. `reset`: what code declares is in
 * force again. `remove`: the limit goes with all that is known of it; the next declaration brings it back.
 */
export type LimitAct = 'declare' | 'set' | 'reset' | 'remove';

/** Of a type, or with null of the whole queue. */
export interface Limited {
  readonly type: string | null;
  /** Null: none. */
  readonly limit: Limit | null;
  /** Its rate has keys. */
  readonly keyed?: boolean;
}

function unknownQueue({ queue, schema }: Names, type: string | null): HoldfastError {
  const what = type === null ? `queue "${queue}"` : `job "${type}" of queue "${queue}"`;
  return new HoldfastError(
    'QUEUE_UNKNOWN',
    `There is no queue "${queue}" in schema "${schema}". No limit was set for ${what}. Make it with createQueue().`,
  );
}

/** Needs a transaction if it shall go with something else. True: something changed. */
export async function putLimit(
  db: Executor,
  names: Names,
  act: LimitAct,
  { type, limit, keyed = false }: Limited,
): Promise<boolean> {
  const { concurrency = null, rate = null } = limit ?? {};
  const numbers = [rate?.limit ?? null, rate?.perMs ?? null, rate?.burst ?? null];
  const [row] = await db.run(setLimit, names, [act, type, concurrency, ...numbers, keyed]);
  if (!row) throw unknownQueue(names, type);
  return row.changed;
}

const same = (a: Limit | null, b: Limit | null) =>
  a?.concurrency === b?.concurrency &&
  a?.rate?.limit === b?.rate?.limit &&
  a?.rate?.perMs === b?.rate?.perMs &&
  a?.rate?.burst === b?.rate?.burst;

/**
 * What the code of a worker says of all types that it handles in a queue; `before` is what was declared. Only what
 * differs is written. A type without a limit has none any more, unless an operator set one.
 */
export async function declareLimits(
  db: Executor,
  names: Names,
  before: readonly Limited[],
  types: readonly Limited[],
): Promise<void> {
  for (const one of types) {
    const was = before.find(({ type }) => type === one.type);
    const keyed = one.keyed ?? false;
    if (same(was?.limit ?? null, one.limit) && (one.limit === null || was?.keyed === keyed))
      continue;
    await putLimit(db, names, 'declare', one);
  }
}
