/** The turns of one run, on the real ports, each stopped before everything that it asks of the database. */
import {
  type Executor,
  executor,
  type Queryable,
} from '../../../packages/holdfast/src/postgres/queryable.js';
import { cancelOwn } from '../../../packages/holdfast/src/settle/cancel.js';
import { complete } from '../../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../../packages/holdfast/src/settle/dead-letter.js';
import type { ContextDeps } from '../../../packages/holdfast/src/worker/run/context-deps.js';
import type { LeasedJob } from '../../../packages/holdfast/src/worker/run/leased-job.js';
import { systemTime } from '../../../packages/holdfast/src/worker/time.js';
import { portsOf } from '../../../packages/holdfast/src/worker/workflow/ports.js';
import { newRunsIo } from '../../../packages/holdfast/src/worker/workflow/runs-io.js';
import { flowOf } from '../../../packages/holdfast/src/workflow/turn/flow-of.js';
import type { TurnPorts } from '../../../packages/holdfast/src/workflow/turn/ports.js';
import { Turn } from '../../../packages/holdfast/src/workflow/turn/turn.js';
import { INBOX, type TestGround } from '../../support/database.js';
import { quietLogger } from '../../support/logger.js';
import type { Body, Run } from '../../support/runs.js';

const abandon = new AbortController();

/** What all turns of all schedules share. */
export function newFloor(db: TestGround) {
  const engine = db.engine;
  const runsIo = newRunsIo({
    ...{ engine, names: INBOX, abandoned: abandon.signal, time: systemTime },
    ...{ reportError: () => undefined, standing: () => 'alive' },
  });
  const context = {
    ...{ engine, names: INBOX, pool: db.pool, ownPool: db.pool, maxPayloadBytes: 1_000_000 },
    ...{ emit: () => undefined, log: quietLogger },
  } as unknown as ContextDeps;
  return { db, engine, runsIo, context };
}

export type Floor = ReturnType<typeof newFloor>;

const CLAIM = `
UPDATE holdfast.inbox AS i
SET status = 'processing', claimed_by = $2, claimed_at = clock_timestamp(), lease_generation = lease_generation + 1,
  lease_expires_at = clock_timestamp() + interval '1 hour', attempts = attempts + 1
WHERE i.id = $1 AND (i.status = 'pending' AND i.available_at <= clock_timestamp()
  OR i.status = 'processing' AND i.lease_expires_at <= clock_timestamp())
RETURNING lease_generation::integer AS generation, attempts::integer AS attempts`;

export async function claim(db: Queryable, id: string, by: string) {
  const result = await db.query(CLAIM, [id, by]);
  const [row] = 'rows' in result ? result.rows : result;
  return row as { generation: number; attempts: number } | undefined;
}

/** Asks of the database that wait for the schedule. */
export class Gate {
  readonly #waiting: (() => void)[] = [];
  #open = false;
  #onMove = () => {};

  get size(): number {
    return this.#waiting.length;
  }

  enter(): Promise<void> {
    if (this.#open) return Promise.resolve();
    this.moved();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Its turn asks again, or is over. */
  moved(): void {
    this.#onMove();
  }

  /** Until then, or for so long. */
  async untilMoved(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#onMove = resolve;
      timer = setTimeout(resolve, ms);
    });
    clearTimeout(timer);
  }

  let(nth: number): void {
    const [go] = this.#waiting.splice(nth % Math.max(1, this.#waiting.length), 1);
    go?.();
  }

  openForEver(): void {
    this.#open = true;
    for (const go of this.#waiting.splice(0)) go();
  }
}

function gated(ports: TurnPorts, gate: Gate): TurnPorts {
  const behind =
    <Args extends unknown[], Value>(call: (...args: Args) => Promise<Value>) =>
    async (...args: Args) => {
      await gate.enter();
      return call(...args);
    };
  return {
    ...ports,
    load: behind(ports.load),
    record: behind(ports.record),
    suspend: behind(ports.suspend),
    spawn: behind(ports.spawn),
    outcomes: behind(ports.outcomes),
    // Before its transaction begins, before the marker, and before it commits.
    transact: behind((marker, work) =>
      ports.transact(marker, async (tx) => {
        const made = await work(tx);
        await gate.enter();
        return made;
      }),
    ),
  };
}

export interface Attempt {
  readonly gate: Gate;
  /** Null: as it should; otherwise what went wrong. */
  readonly ended: Promise<string | null>;
  isOver: boolean;
}

export function takeTurn(
  { engine, context, runsIo }: Floor,
  of: { id: string; workerId: string; generation: number; attempts: number },
  definition: Run,
  body: Body,
): Attempt {
  const { id, generation, workerId, attempts } = of;
  const gate = new Gate();
  const held = { id, generation, workerId, row: { version: 1 } } as unknown as LeasedJob;
  const turn = new Turn(
    {
      ...{ id, type: definition.type, version: 1, attempt: attempts, crashes: 0, maxAttempts: 25 },
      ...{ isNew: generation === 1, createdAt: new Date(0), headers: {}, log: quietLogger },
      ...{ signal: new AbortController().signal, maxBytes: 1_000_000 },
    },
    gated(portsOf(held, context, runsIo), gate),
  );
  const attempt: Attempt = { gate, isOver: false, ended: end() };
  attempt.ended.then(() => {
    attempt.isOver = true;
    gate.moved();
  });
  return attempt;

  async function end(): Promise<string | null> {
    const flow = flowOf(turn, definition as never) as never;
    const failed = (error: unknown) => ({ kind: 'threw', error }) as const;
    const how = await turn.run(() => body(flow, null)).catch(failed);
    if (how.kind === 'asleep') return null;
    if (how.kind === 'threw' && (how.error as { code?: unknown }).code === 'LEASE_LOST')
      return null;
    if (how.kind === 'threw' || how.kind === 'restarted')
      return `a turn ended with ${how.kind} ${'error' in how ? (how.error as Error).stack : ''}`;
    await gate.enter();
    await settle(engine, of, how);
    return null;
  }
}

type Owner = { id: string; generation: number; workerId: string };
type Settling = { kind: string; value?: unknown; error?: Error; reason?: string };

async function settle(db: Executor, { id, generation, workerId }: Owner, how: Settling) {
  const job = { id, generation };
  if (how.kind === 'returned')
    await complete(db, INBOX, workerId, [{ ...job, result: JSON.stringify(how.value) }]);
  else if (how.kind === 'cancelled')
    await cancelOwn(db, INBOX, workerId, [{ ...job, reason: how.reason ?? '' }]);
  else {
    const error = how.error?.message ?? '';
    await deadLetter(db, INBOX, workerId, [{ ...job, error, summary: error }]);
  }
}

/** As a worker, in a transaction of its handler's or by itself. */
export async function endChild(db: Queryable, id: string, how: string): Promise<void> {
  const claimed = await claim(db, id, 'of-the-child');
  if (!claimed) return;
  const job = { id, generation: claimed.generation };
  const run = executor(db);
  if (how === 'completed') await complete(run, INBOX, 'of-the-child', [{ ...job, result: '1' }]);
  else if (how === 'cancelled')
    await cancelOwn(run, INBOX, 'of-the-child', [{ ...job, reason: 'no' }]);
  else await deadLetter(run, INBOX, 'of-the-child', [{ ...job, error: 'no', summary: 'no' }]);
}
