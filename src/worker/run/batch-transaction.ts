/**
 * A transaction that completes several jobs of a batch: the handler's writes, the completions and the children of
 * the jobs commit together or not at all. If one of the jobs is not ours any more, nothing is committed.
 */
import type pg from 'pg';
import { writeJobs } from '../../enqueue/enqueue.js';
import type { NewJob } from '../../enqueue/insert.js';
import { withClient } from '../../postgres/pool.js';
import { executor } from '../../postgres/queryable.js';
import { complete } from '../../settle/complete.js';
import { enqueuedEvents } from '../settle/enqueued.js';
import type { JobContext } from './context.js';
import { type ContextDeps, leaseLost } from './handler-context.js';
import type { LeasedJob } from './leased-job.js';

/** A job of the batch, of which nobody has said yet what became of it. */
export interface Member {
  readonly held: LeasedJob;
  readonly context: JobContext<unknown>;
}

/** What was taken from the contexts for the transaction. */
type Children = Map<JobContext<unknown>, NewJob[]>;

export async function completeTogether<Value>(
  members: readonly Member[],
  deps: ContextDeps,
  work: (tx: pg.PoolClient) => Promise<Value>,
): Promise<Value> {
  await inTheirTurn(members);
  const children: Children = new Map();
  return withClient(deps.pool, async (client) => {
    try {
      await client.query('BEGIN');
      const value = await work(client);
      await completeAll(members, deps, client, children);
      await client.query('COMMIT');
      for (const { context } of members) context.completion = 'done';
      return value;
    } catch (error) {
      await client.query('ROLLBACK').then(
        () => takeBack(members, children),
        (failed: Error) => client.emit('error', failed),
      );
      throw error;
    }
  });
}

/** Jobs of the same keys that ran before are settled first: a crash must not repeat them after these. */
async function inTheirTurn(members: readonly Member[]): Promise<void> {
  const inside = new Set(members.map(({ held }) => held));
  for (const { held } of members) {
    const { before } = held;
    if (!before || inside.has(before)) continue;
    await before.left();
    if (before.failed) throw leaseLost(held.id, 'the transaction');
  }
}

async function completeAll(
  members: readonly Member[],
  { names, maxPayloadBytes, emit }: ContextDeps,
  client: pg.PoolClient,
  children: Children,
): Promise<void> {
  await Promise.all(members.map(({ context }) => context.writing.ended()));
  const over = members.find(({ held, context }) => held.lost || held.gone || context.isOver);
  if (over) throw leaseLost(over.held.id, 'the transaction');
  for (const { context, held } of members) {
    context.completion = 'handed';
    children.set(context, context.children.splice(0));
    held.settling = true;
  }
  const db = executor(client);
  const all = [...children.values()].flat();
  if (all.length > 0) {
    const written = await writeJobs(db, names, all, { maxPayloadBytes, onMismatch: 'error' });
    for (const event of enqueuedEvents(names.queue, all, written)) emit(event);
  }
  const jobs = members.map(({ held: { id, generation } }) => ({ id, generation }));
  const workerId = (members[0] as Member).held.workerId;
  const moved = new Set(await complete(db, names, workerId, jobs));
  const lost = members.filter(({ held }) => !moved.has(held.id));
  for (const { held } of lost) held.gone = true;
  if (lost[0]) throw leaseLost(lost[0].held.id, 'the transaction');
}

/** Certainly not committed: the jobs are still ours, and their children still wait. */
function takeBack(members: readonly Member[], children: Children): void {
  for (const { context, held } of members) {
    // After the end the job is being settled, and what that does is not to be undone here.
    if (context.isOver) continue;
    context.completion = 'none';
    held.settling = false;
    context.children.unshift(...(children.get(context) ?? []));
  }
}
