/**
 * Asking a worker to drain. It reads its own status with its next heartbeat, claims nothing more, finishes what it holds and
 * ends. Its buckets go to others as soon as the status has changed.
 */
import type { Executor } from '../postgres/queryable.js';
import { statement, text } from '../postgres/statement.js';

export const askToDrain = statement({
  name: 'ask_to_drain',
  text: `
WITH asked AS (
  UPDATE holdfast.workers AS w SET status = 'draining'
  WHERE w.id = $1::text AND w.status = 'alive'
)
SELECT w.status AS was FROM holdfast.workers AS w WHERE w.id = $1::text`,
  columns: { was: text },
});

/** What the worker was before: only an `alive` one was asked. Null: the registry does not know it. */
export async function drainWorker(
  db: Executor,
  schema: string,
  id: string,
): Promise<'alive' | 'draining' | 'dead' | null> {
  const [row] = await db.run(askToDrain, { schema, queue: 'inbox' }, [id]);
  return (row?.was as 'alive' | 'draining' | 'dead' | undefined) ?? null;
}
