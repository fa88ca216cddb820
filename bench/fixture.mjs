// What the parts share: a migrated database, rows in bulk, and a connection as a worker has it.
import pg from 'pg';
import { engineConfig } from '../packages/holdfast/build/postgres/connect/pool.js';
import { engineExecutor } from '../packages/holdfast/build/postgres/queryable.js';
import { holdfast } from '../packages/holdfast/dist/index.js';

export const INBOX = { schema: 'holdfast', queue: 'inbox' };

export async function openFixture(url) {
  const hf = holdfast({ connectionString: url });
  await hf.migrate();
  const client = new pg.Client(engineConfig({ connectionString: url }));
  await client.connect();
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  // A part that failed may leave its sessions to the server's end.
  for (const session of [client, admin]) session.on('error', () => {});
  return {
    url,
    hf,
    client,
    admin,
    engine: engineExecutor(client, { prepare: true }),
    async close() {
      await client.end();
      await admin.end();
      await hf.close();
    },
  };
}

/** An empty queue that is read by time ('none') or by key. */
export async function emptyQueue(admin, ordering = 'none') {
  await admin.query('TRUNCATE holdfast.inbox, holdfast.inbox_archive');
  await admin.query("UPDATE holdfast.queues SET ordering = $1 WHERE name = 'inbox'", [ordering]);
}

/** An empty queue, and `count` due jobs over `keys` keys, written as a producer's INSERT would. */
export async function fill(admin, count, { ordering, ...options } = {}) {
  await emptyQueue(admin, ordering);
  if (count > 0) await fillMore(admin, count, options);
  await admin.query('CHECKPOINT');
}

export async function fillMore(admin, count, { keys = 10_000 } = {}) {
  await admin.query('DROP TABLE IF EXISTS key_bucket');
  await admin.query(
    `CREATE TEMP TABLE key_bucket AS
     SELECT g, 'order:' || g AS key, holdfast.bucket_of('order:' || g) AS bucket
     FROM generate_series(0, ${keys - 1}) AS g`,
  );
  await admin.query('ANALYZE key_bucket');
  await admin.query(
    `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, parked)
     SELECT 'noop', k.key, k.bucket, jsonb_build_object('orderId', n), false
     FROM generate_series(1, $1::int) AS n JOIN key_bucket AS k ON k.g = n % ${keys}
     ORDER BY n`,
    [count],
  );
  await admin.query('ANALYZE holdfast.inbox');
}
