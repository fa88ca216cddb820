/**
 * Completing jobs inside a transaction of the handler's: its writes, the completions and the children of the jobs commit
 * together or not at all. If one of the jobs is not ours any more, nothing is committed.
 */
import type pg from 'pg';
import { type Enqueued, enqueuedEvents, writeJobs } from '../../enqueue/enqueue.js';
import type { NewJob } from '../../enqueue/insert.js';
import { HoldfastError } from '../../job/errors/errors.js';
import { lend } from '../../postgres/connect/lent-client.js';
import { withClient } from '../../postgres/connect/pool.js';
import { isRefusedToAll } from '../../postgres/connect/transient.js';
import { inQueue } from '../../postgres/in-queue.js';
import { type Executor, executor, type Queryable } from '../../postgres/queryable.js';
import { complete } from '../../settle/complete.js';
import type { ContextDeps } from './context-deps.js';
import { jobState, leaseLost } from './handler-context.js';
import type { LeasedJob } from './leased-job.js';
import type { OpenCalls } from './open-calls.js';

/** What a completion needs of the context of a job. */
export interface Completing {
  readonly held: LeasedJob;
  readonly writing: OpenCalls;
  readonly isOver: boolean;
  completion: 'none' | 'done' | 'handed';
  refusal: unknown;
  notHeld(doing: string): Error;
  connection: ((error: Error) => void) | null;
  handOver(): readonly Child[];
  takeBack(): void;
}

type Members = readonly Completing[];

/** Jobs of the same keys that ran before are settled first: a crash must not repeat them after these. */
export async function inTheirTurn(members: Members, doing: string): Promise<void> {
  const inside = new Set(members.map(({ held }) => held));
  for (const { held } of members) {
    const { before } = held;
    if (!before || inside.has(before)) continue;
    await before.left();
    if (before.failed) throw leaseLost(held.id, doing);
  }
}

/** A transaction that has the completions of these jobs in it. One that is surely rolled back leaves them ours. */
export function committing<Value>(
  members: Members,
  pool: pg.Pool,
  work: (tx: pg.PoolClient) => Promise<Value>,
): Promise<Value> {
  return withClient(pool, async (client, cutOff) => {
    let committing = false;
    for (const one of members) one.connection = cutOff;
    const lent = lend(client, `the transaction of job ${members[0]?.held.id}`);
    try {
      await client.query('BEGIN');
      const value = await work(lent.tx).finally(lent.end);
      committing = true;
      const ended = await client.query('COMMIT');
      // COMMIT of a transaction that a query has broken rolls it back, and does not fail.
      if (ended?.command === 'ROLLBACK')
        throw jobState(
          `A query that failed broke the transaction of job ${members[0]?.held.id} after its completion was written, so nothing was committed. Wait for every query inside of the transaction.`,
        );
      for (const one of members) one.completion = 'done';
      return value;
    } catch (error) {
      // A COMMIT that had no answer in time may have been done: a refusal of the server has a code.
      const isUnknown = committing && (error as { code?: unknown } | null)?.code === undefined;
      await client.query('ROLLBACK').then(
        () => (isUnknown ? undefined : takeBack(members)),
        (failed: Error) => client.emit('error', failed),
      );
      throw error;
    } finally {
      for (const one of members) one.connection = null;
    }
  });
}

/** Writes the children of these jobs and the completions. `result`: of a single job. */
export async function completeIn(
  tx: Queryable,
  members: Members,
  deps: ContextDeps,
  doing: string,
  result: string | null = null,
): Promise<void> {
  // What is enqueued from here on is refused: it would not be written.
  const children = members.flatMap((one) => one.handOver());
  const jobs = members.map(({ held: { id, generation } }) => ({ id, generation, result }));
  let moved: Set<string>;
  try {
    // The children first: the completion locks the row, and from then on the transaction should be short.
    if (children.length > 0) (await writeChildren(executor(tx), children, deps)).tell();
    for (const { held } of members) held.settling = true;
    const workerId = members[0]?.held.workerId as string;
    moved = new Set(await complete(executor(tx), deps.names, workerId, jobs));
  } catch (error) {
    takeBack(members);
    if (isRefusedToAll(error)) for (const one of members) one.refusal = error;
    throw error;
  }
  const lost = members.filter(({ held }) => !moved.has(held.id));
  for (const one of lost) {
    one.held.gone = true;
    one.held.abort(one.notHeld(doing));
  }
  if (lost[0]) throw lost[0].notHeld(doing);
}

/** A job that a handler enqueued, of whichever queue. */
export interface Child {
  readonly queue: string;
  readonly job: NewJob;
}

/** Queue by queue, in the order of their names. Returns what tells of them once the transaction has committed. */
export async function writeChildren(
  db: Executor,
  children: readonly Child[],
  { names: { schema, queue: own }, maxPayloadBytes, emit, knownQueues }: ContextDeps,
): Promise<{ readonly written: readonly Enqueued[]; readonly tell: () => void }> {
  const limits = { maxPayloadBytes, onMismatch: 'error' } as const;
  const byId = new Map<string, Enqueued>();
  const events: Parameters<typeof emit>[0][] = [];
  for (const queue of [...new Set(children.map((child) => child.queue))].sort()) {
    const jobs = children.filter((child) => child.queue === queue).map(({ job }) => job);
    const names = { schema, queue };
    const writing = writeJobs(db, names, jobs, limits);
    const written = await (queue === own ? writing : inQueue(names, writing)).catch((error) => {
      knownQueues.remove(queue);
      throw refusedChildren(jobs, error);
    });
    for (const [n, { id }] of jobs.entries()) byId.set(id, written[n] as Enqueued);
    events.push(...enqueuedEvents(queue, jobs, written));
  }
  return {
    written: children.map(({ job }) => byId.get(job.id) as Enqueued),
    tell: () => events.forEach(emit),
  };
}

/** The handler may have enqueued many, long before they are written. */
function refusedChildren(jobs: readonly NewJob[], error: unknown): unknown {
  if (!(error instanceof HoldfastError)) return error;
  const keyed = error.code === 'IDEMPOTENCY_MISMATCH';
  const suspected = keyed ? jobs.filter((job) => job.idempotencyKey !== null) : jobs;
  const types = [...new Set(suspected.map(({ type }) => `"${type}"`))].join(', ');
  const text = `A child of ctx.enqueue() was refused (${types}): ${error.message}`;
  return new HoldfastError(error.code, text, { cause: error });
}

function takeBack(members: Members): void {
  for (const one of members) one.takeBack();
}

export async function completeTogether<Value>(
  members: Members,
  deps: ContextDeps,
  work: (tx: pg.PoolClient) => Promise<Value>,
): Promise<Value> {
  const doing = 'the transaction';
  await inTheirTurn(members, doing);
  return committing(members, deps.pool, async (tx) => {
    const value = await work(tx);
    await Promise.all(members.map(({ writing }) => writing.ended()));
    const over = members.find(({ held, isOver }) => held.lost || held.gone || isOver);
    if (over) throw over.notHeld(doing);
    await completeIn(tx, members, deps, doing);
    return value;
  });
}
