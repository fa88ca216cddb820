/** The tables of a build: made once, by whichever shard comes first, in a schema of their own. */
import { withTransaction } from '../../../postgres/connect/pool.js';
import { quoteName } from '../../../postgres/names.js';
import { engineExecutor } from '../../../postgres/queryable.js';
import { enter } from '../rows/cursor.js';
import { created } from '../rows/registry.js';
import type { Shard, ShardDeps } from './deps.js';

export async function makeTables(
  { projection, pool, names }: ShardDeps,
  { projectionId, taken }: Shard,
): Promise<void> {
  if (taken.created) return;
  await withTransaction(pool, async (client) => {
    const db = engineExecutor(client, { prepare: false });
    const row = await created(db, names, projectionId);
    if (!row || !projection.create) return;
    if (row.tables !== null && !row.there)
      await client.query(`CREATE SCHEMA ${quoteName(row.tables)}`);
    await enter(db, names, projectionId);
    await projection.create(client);
  });
}
