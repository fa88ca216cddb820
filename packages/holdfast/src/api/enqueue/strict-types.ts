/**
 * Strict types: an enqueue of a type that no worker has registered on its queue is refused. A worker's row stays for a while
 * after it has left, so a deploy that stops all of them refuses nothing. A type that was found once is remembered for the
 * life of the process; one that was not is asked for again by the next enqueue.
 */
import { HoldfastError } from '../../job/errors/holdfast-error.js';
import { nearest } from '../../job/options/nearest.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { statement, text, textArray } from '../../postgres/statement.js';

export const askRegisteredTypes = statement({
  name: 'registered_types',
  text: `
SELECT t.type
FROM unnest($1::text[]) AS t(type)
WHERE EXISTS (SELECT FROM holdfast.workers AS w WHERE jsonb_exists(w.handles -> 'inbox', t.type))`,
  columns: { type: text },
});

export const listRegisteredTypes = statement({
  name: 'all_registered_types',
  text: `
SELECT DISTINCT h.type
FROM holdfast.workers AS w CROSS JOIN LATERAL jsonb_object_keys(w.handles -> 'inbox') AS h(type)
LIMIT 2000`,
  columns: { type: text },
});

async function refusal(db: Executor, names: Names, type: string): Promise<HoldfastError> {
  const known = await db.run(listRegisteredTypes, names, []);
  const meant = nearest(
    type,
    known.map((row) => row.type),
  );
  return new HoldfastError(
    'TYPE_UNKNOWN',
    `No worker has registered the type "${type}" on the queue "${names.queue}", and types are strict here; nothing was enqueued.${meant} ` +
      'Correct the type, or start a worker that handles it before the first enqueue; or leave strictTypes out.',
  );
}

export class StrictTypes {
  /** By queue. */
  readonly #registered = new Map<string, Set<string>>();

  /** Rejects with TYPE_UNKNOWN. `ask`: the caller's transaction, or statements outside of any. */
  async check(
    names: Names,
    jobs: readonly { readonly type: string }[],
    ask: () => Executor | Promise<Executor>,
  ): Promise<void> {
    const { queue } = names;
    const registered = this.#registered.get(queue) ?? new Set();
    this.#registered.set(queue, registered);
    const asked = [...new Set(jobs.map(({ type }) => type))].filter(
      (type) => !registered.has(type),
    );
    if (asked.length === 0) return;
    const db = await ask();
    const found = await db.run(askRegisteredTypes, names, [textArray(asked)]);
    for (const { type } of found) registered.add(type);
    const unknown = asked.find((type) => !registered.has(type));
    if (unknown !== undefined) throw await refusal(db, names, unknown);
  }
}
