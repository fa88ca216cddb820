/**
 * What the attempts of a queue fail of most often, from a bounded part of it. Where the queue is read by time: of each
 * type the jobs that become due next, where retries lie, and those that became due last. Where it is read by key: the
 * oldest jobs. In both: the newest dead letters. Failures older than some minutes do not count.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int8, type Row, statement, text, uuid } from '../../postgres/statement.js';
import { inLines, LINES, share } from '../reading/lines.js';
import { foldedError } from './dead-letter-groups.js';

const ROWS = 2_000;
const WITHIN_MS = 5 * 60_000;

const MOST = (waiting: string, lines = '') => `${lines}
SELECT f.type, f.error, count(*) AS jobs, max(f.id::text)::uuid AS example
FROM (
  SELECT j.id, j.type, ${foldedError('j')} AS error
  FROM (${waiting}
    UNION ALL
    (SELECT i.id, i.type, i.status, i.last_error, i.history FROM holdfast.inbox AS i
     WHERE i.available_at = 'infinity' ORDER BY i.id DESC LIMIT $1::integer)
  ) AS j
  WHERE j.status <> 'processing' AND j.last_error IS NOT NULL
    AND j.history #>> '{-1,outcome}' IN ('failed', 'dead_letter')
    AND (j.history #>> '{-1,at}')::timestamptz > now() - $2::integer * interval '1 millisecond'
) AS f
GROUP BY f.type, f.error
ORDER BY count(*) DESC, f.type, f.error
LIMIT 1`;

const COLUMNS = {
  type: text,
  /** `#` stands for a number or an id. */
  error: text,
  jobs: int8,
  example: uuid,
};

const PART = (when: string, order: 'ASC' | 'DESC') =>
  inLines({
    columns: 'i.id, i.type, i.status, i.last_error, i.history',
    ...{ when, order, most: share('$1::integer') },
  });

export const commonErrorByTime = statement({
  name: 'common_error_by_time',
  text: MOST(
    `${PART(`i.available_at > now() AND i.available_at < 'infinity'`, 'ASC')}
    UNION ALL ${PART('i.available_at <= now()', 'DESC')}`,
    `WITH RECURSIVE ${LINES}`,
  ),
  columns: COLUMNS,
});

export const commonErrorByKey = statement({
  name: 'common_error_by_key',
  text: MOST(`
    (SELECT i.id, i.type, i.status, i.last_error, i.history FROM holdfast.inbox AS i
     ORDER BY i.id LIMIT $1::integer)`),
  columns: COLUMNS,
});

export type CommonError = Row<typeof COLUMNS>;

/** Null: none was found where it looked. */
export async function commonError(
  db: Executor,
  names: Names,
  keyed: boolean,
): Promise<CommonError | null> {
  const found = keyed ? commonErrorByKey : commonErrorByTime;
  const [most] = await db.run(found, names, [ROWS, WITHIN_MS]);
  return most ?? null;
}
