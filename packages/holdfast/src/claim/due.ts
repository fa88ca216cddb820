/**
 * The question of an idle worker: which of its queues have something to do, all in one statement. See
 * schema/functions/queue/due.sql.ts.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, int8, statement, text } from '../postgres/statement.js';

import type { QueueNews, Versions } from './take.js';
import { linesOf } from './time/lines.js';

export const askDueQueues = statement({
  name: 'due_queues',
  text: `
SELECT d.queue, d.due_in_ms, d.suspects, d.maintained_ms, d.recount, d.unused
FROM holdfast.due_queues($1::jsonb) AS d`,
  columns: {
    ...{ queue: text, due_in_ms: int8.orNull, suspects: bool, maintained_ms: int8.orNull },
    ...{ recount: bool, unused: bool },
  },
});

export interface DueNews extends QueueNews {
  readonly queue: string;
  /** There is no job in it, of whatever kind. */
  readonly unused: boolean;
}

/** Of these queues, those in which there is any job. */
export async function usedOf(
  db: Executor,
  schema: string,
  queues: readonly string[],
): Promise<ReadonlySet<string>> {
  const asked = new Map(queues.map((queue) => [queue, {}]));
  const answers = await askDue(db, { schema, queue: 'inbox' }, asked);
  return new Set(answers.filter(({ unused }) => !unused).map(({ queue }) => queue));
}

/** By queue, the types that the worker handles. */
export function askDue(
  db: Executor,
  names: Names,
  asked: ReadonlyMap<string, Versions>,
): Promise<DueNews[]> {
  const request = [...asked].map(([queue, handled]) => {
    const lines = linesOf(handled, [1]);
    const types = lines.map(({ type }) => type);
    return [queue, { types, versions: lines.map(({ version }) => version) }];
  });
  return db.run(askDueQueues, names, [JSON.stringify(Object.fromEntries(request))]);
}
