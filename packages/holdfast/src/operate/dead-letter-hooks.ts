/**
 * Which job tells of dead letters: what code says of its types, and a program of a queue. The database reads it when it
 * writes a dead letter (schema/functions/job/dead-letter-hook.sql.ts). The last worker that starts wins, as with limits.
 */
import type { Hook } from '../job/dead-job.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int4, statement, text } from '../postgres/statement.js';

export interface Hooked {
  /** Null: all types of the queue that name none. */
  readonly type: string | null;
  /** Null: none. */
  readonly hook: Hook | null;
}

const COLUMNS = 'to_queue, to_type, version, priority, max_attempts';

export const declareDeadLetterHooks = statement({
  name: 'declare_dead_letter_hooks',
  text: `
WITH said AS MATERIALIZED (
  SELECT s.* FROM jsonb_to_recordset($1::text::jsonb)
    AS s(type text, to_queue text, to_type text, version integer, priority smallint, max_attempts integer)
), gone AS (
  DELETE FROM holdfast.on_dead_letter AS h USING said AS s
  WHERE h.queue = 'inbox' AND h.type = s.type AND s.to_type IS NULL
  RETURNING h.type
), kept AS (
  INSERT INTO holdfast.on_dead_letter AS h (queue, type, ${COLUMNS})
  SELECT 'inbox', s.type, ${COLUMNS} FROM said AS s
  -- The queue is not dropped meanwhile.
  CROSS JOIN (SELECT FROM holdfast.queues AS q WHERE q.name = 'inbox' FOR KEY SHARE) AS q
  WHERE s.to_type IS NOT NULL AND NOT EXISTS (SELECT FROM holdfast.on_dead_letter AS b
    WHERE b.queue = 'inbox' AND (b.type, b.to_queue, b.to_type, b.version, b.priority, b.max_attempts)
      = (s.type, s.to_queue, s.to_type, s.version, s.priority, s.max_attempts))
  ORDER BY s.type
  ON CONFLICT (queue, type) DO UPDATE SET (${COLUMNS}) = ROW(excluded.to_queue, excluded.to_type, excluded.version,
    excluded.priority, excluded.max_attempts)
  RETURNING h.type
)
SELECT g.type FROM gone AS g UNION ALL SELECT k.type FROM kept AS k`,
  columns: { type: text },
});

export const listDeadLetterHooks = statement({
  name: 'list_dead_letter_hooks',
  text: `
SELECT h.queue, h.type, h.to_queue, h.to_type, h.version::integer AS version, h.priority::integer AS priority,
  h.max_attempts::integer AS max_attempts
FROM holdfast.on_dead_letter AS h`,
  columns: {
    ...{ queue: text, type: text, to_queue: text, to_type: text },
    ...{ version: int4, priority: int4, max_attempts: int4 },
  },
});

/** What differs from the database, by queue: one question for all queues of a worker that starts. */
export async function changedHooks(
  db: Executor,
  schema: string,
): Promise<(queue: string, said: readonly Hooked[]) => Hooked[]> {
  const rows = await db.run(listDeadLetterHooks, { schema, queue: 'inbox' }, []);
  const word = (hook: Hook) =>
    [hook.queue, hook.type, hook.version, hook.priority, hook.maxAttempts].join(' ');
  const before = new Map(
    rows.map(({ queue, type, toQueue, toType, ...rest }) => [
      `${queue} ${type}`,
      word({ queue: toQueue, type: toType, ...rest }),
    ]),
  );
  return (queue, said) =>
    said.filter(
      ({ type, hook }) => before.get(`${queue} ${type ?? ''}`) !== (hook ? word(hook) : undefined),
    );
}

/** Only what differs is written. */
export async function declareHooks(
  db: Executor,
  names: Names,
  said: readonly Hooked[],
): Promise<void> {
  const rows = said.map(({ type, hook }) => ({
    type: type ?? '',
    ...(hook && { to_queue: hook.queue, to_type: hook.type, version: hook.version }),
    ...(hook && { priority: hook.priority, max_attempts: hook.maxAttempts }),
  }));
  await db.run(declareDeadLetterHooks, names, [JSON.stringify(rows)]);
}

export const findQueueHook = statement({
  name: 'find_queue_hook',
  text: `
SELECT h.to_queue AS queue, h.to_type AS type FROM holdfast.on_dead_letter AS h
WHERE h.queue = 'inbox' AND h.type = ''`,
  columns: { queue: text, type: text },
});

/** The types of a queue whose dead letters are told; '' is all of them. */
export async function hookedTypes(db: Executor, { schema, queue }: Names): Promise<string[]> {
  const rows = await db.run(listDeadLetterHooks, { schema, queue: 'inbox' }, []);
  return rows.filter((row) => row.queue === queue).map(({ type }) => type);
}

/** That of the whole queue. */
export async function queueHook(
  db: Executor,
  names: Names,
): Promise<{ readonly queue: string; readonly type: string } | null> {
  const [row] = await db.run(findQueueHook, names, []);
  return row ?? null;
}
