// Splits one hot partition key into several: 'tenant:123' becomes 'tenant:123#shard-0' and so on, so that several workers,
// or several jobs of an ordered queue, can serve one tenant at once. The producer chooses the shard: by a sub-key, at random,
// or in turn. Order holds within a shard only. Another number of shards moves sub-keys to other shards: if order matters,
// let the queue run empty of the key first. Shards land in buckets by chance; a few may share one.

import { invalid, shown } from './errors/holdfast-error.js';
import { BUCKETS, checkKey, hash32 } from './key.js';

/** How `shardedKey()` picks a shard. */
export interface ShardOptions {
  /** The same text always gets the same shard, such as the id of an order. */
  readonly by: string;
}

/**
 * One of the shards of a hot partition key: always the same for a sub-key, else a random one. In SQL:
 * `'tenant:123#shard-' || ((holdfast.hash32(order_id) * 8) >> 32)`.
 * @example const partitionKey = shardedKey('tenant:123', 8, { by: 'order:9182' });
 */
export function shardedKey(key: string, shards: number, options?: ShardOptions): string {
  checkSharding(key, shards);
  if (options === undefined) return shardName(key, Math.floor(Math.random() * shards));
  return shardName(key, shardOf(checkSubKey(options), shards));
}

/**
 * Returns a function that returns the shards of a key in turn.
 * @example const nextKey = shardedKeys('tenant:123', 8);
 */
export function shardedKeys(key: string, shards: number): () => string {
  checkSharding(key, shards);
  // Many short-lived producers that all began at shard 0 would make it the hot one.
  let turn = Math.floor(Math.random() * shards);
  return () => {
    turn = (turn + 1) % shards;
    return shardName(key, turn);
  };
}

/** From the high bits, because the bucket is the low ones: jobs of one bucket reach every shard. */
const shardOf = (subKey: string, shards: number) => Math.floor((hash32(subKey) * shards) / 2 ** 32);

const shardName = (key: string, shard: number) => `${key}#shard-${shard}`;

function checkSharding(key: unknown, shards: unknown): void {
  const isCount = typeof shards === 'number' && Number.isInteger(shards);
  if (!isCount || shards < 1 || shards > BUCKETS) {
    throw invalid(
      `shards must be a whole number from 1 to ${BUCKETS}, got ${shown(shards)}; no key was ` +
        'made; use a number such as 8, and the same one wherever jobs of this key are enqueued',
    );
  }
  // The longest of them, so that a key is accepted for all of its shards or for none.
  const suffix = shardName('', shards - 1);
  checkKey(shardName(checkKey(key), shards - 1), `key with its suffix "${suffix}"`);
}

/** Falling back to a random shard would lose the order that the caller asked for. */
function checkSubKey(options: unknown): string {
  const isObject = typeof options === 'object' && options !== null;
  const by = isObject ? (options as { by?: unknown }).by : undefined;
  if (typeof by === 'string' && by !== '') return by;
  const problem = isObject
    ? `by must be a text that is not empty, got ${shown(by)}`
    : `the options must be an object such as { by: order.id }, got ${shown(options)}`;
  throw invalid(
    `${problem}; no key was made; give a sub-key, or leave the options out for a random shard`,
  );
}
