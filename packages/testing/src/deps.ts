/**
 * What the kit uses of a Holdfast: its pool, and beside it connections of its own, so that a handler that holds every
 * connection of the pool does not keep the kit from settling its job. They are closed with `hf.close()`.
 */
import { type Holdfast, HoldfastError, type Logger } from 'holdfast';
import {
  checkQueueName,
  closePool,
  type Executor,
  engineExecutor,
  enginePool,
  type Names,
  partsOf,
  plainPool,
} from 'holdfast/internal';
import type pg from 'pg';

export interface TestDeps {
  readonly hf: Holdfast;
  readonly schema: string;
  readonly names: (queue: string) => Names;
  /** Of handlers' transactions. */
  readonly pool: pg.Pool;
  /** The kit's own. */
  readonly ownPool: pg.Pool;
  readonly engine: Executor;
  readonly plain: Executor;
  /** The same statements on a client in a transaction. */
  readonly on: (client: pg.PoolClient) => Executor;
  readonly log: Logger;
  readonly maxPayloadBytes: number;
}

type Pools = Readonly<Record<'engine' | 'ownPool', pg.Pool>>;

const CLOSE_MS = 500;
const made = new WeakMap<object, TestDeps>();

/** The same for every call with the same Holdfast. */
export function depsOf(hf: Holdfast): TestDeps {
  const deps = made.get(hf) ?? makeDeps(hf, hf);
  made.set(hf, deps);
  return deps;
}

/** For a Holdfast that is made of another one and has connections of its own kind. */
export function setDeps(hf: Holdfast, original: Holdfast, pools: Pools): void {
  made.set(hf, makeDeps(hf, original, pools));
}

/** A refused option. The text says what was not done, and the fix. */
export const invalid = (text: string) => new HoldfastError('OPTION_INVALID', text);

function makeDeps(hf: Holdfast, original: Holdfast, given?: Pools): TestDeps {
  const parts = partsOf(original);
  if (!parts)
    throw invalid(
      'This is not an object that holdfast() has returned, or it comes from another copy of the package; nothing was done. ' +
        'Pass what holdfast({ connectionString }) or (await startPglite()).hf gives you, not a copy of it.',
    );
  const { schema, log, maxPayloadBytes, connection, pooler } = parts;
  const own = given ?? {
    engine: enginePool({ ...connection, pooled: pooler }, 3, log),
    ownPool: plainPool(connection, 3, log),
  };
  if (!given)
    parts.onClose(async () => {
      made.delete(hf);
      await Promise.all([closePool(own.engine, CLOSE_MS), closePool(own.ownPool, CLOSE_MS)]);
    });
  const prepare = !pooler;
  return {
    ...{ hf, schema, log, maxPayloadBytes },
    pool: parts.pool(),
    ownPool: own.ownPool,
    names: (queue) => ({ schema, queue: checkQueueName(queue) }),
    engine: engineExecutor(own.engine, { prepare, pooled: pooler }),
    on: (client) => engineExecutor(client, { prepare }),
    plain: engineExecutor(own.ownPool, { prepare }),
  };
}
