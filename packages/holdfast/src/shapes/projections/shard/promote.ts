/** A build that has caught up takes the place of the live one by itself. */

import { lagOf } from '../../../inspect/projections/lag.js';
import { withTransaction } from '../../../postgres/connect/pool.js';
import { engineExecutor } from '../../../postgres/queryable.js';
import { swap } from '../swap.js';
import type { ShardDeps } from './deps.js';

/** No shard is further behind. */
const CAUGHT_UP_MS = 1_000;

/** The first shard asks, now and then. True: it is live now. */
export async function promoteIfCaughtUp(
  { projection, pool, names, log }: ShardDeps,
  projectionId: number,
): Promise<void> {
  const lags = await lagOf(engineExecutor(pool, { prepare: false }), names, projection.name);
  const own = lags.find(({ id }) => id === projectionId);
  if (own?.state !== 'building' || !own.auto) return;
  if (own.events > 0 && own.lagMs > CAUGHT_UP_MS) return;
  await withTransaction(pool, (client) =>
    swap(client, names, projection.name, ({ id }) => id === projectionId),
  );
  log.info(
    { projection: projection.name, version: own.version, build: projectionId },
    'a projection has caught up and is live now',
  );
}
