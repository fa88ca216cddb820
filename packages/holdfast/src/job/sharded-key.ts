// Splits one hot partition key into several: 'tenant:123' becomes 'tenant:123#shard-0' and on, so
// that several workers, or several jobs of an ordered queue at once, can serve one tenant. Which
// shard a job gets is the producer's choice: by a sub-key, so that jobs of one sub-key stay in one
// shard and in order; at random; or in turn. Order holds within a shard and is lost between the
// shards of a key, and a change of the number of shards moves sub-keys to other shards: let the
// queue run empty of the key before, if order matters. Keys differ only by their name, so shards
// land in buckets, and with workers, by chance: a few may share one.

import { HoldfastError } from './errors/errors.js';
import { shown } from './errors/holdfast-error.js';
import { BUCKETS, checkKey, hash32 } from './key.js';

const MAX_SHARDS = BUCKETS;

export interface ShardOptions {
  /** The same text always gets the same shard, for example the id of an order of the tenant. */
  readonly by: string;
}

/**
 * One of the shards of a key: by a sub-key (`shardedKey('tenant:123', 8, { by: orderId })`), or at
 * random (`shardedKey('tenant:123', 8)`). A producer in SQL gets the shard of a sub-key with
 * `'tenant:123#shard-' || ((holdfast.hash32(order_id) * 8) >> 32)`.
 */
export function shardedKey(key: string, shards: number, options?: ShardOptions): string {
  checkSharding(key, shards);
  if (options === undefined) return shardName(key, Math.floor(Math.random() * shards));
  return shardName(key, shardOf(checkSubKey(options), shards));
}

/** A function that returns the shards of a key in turn, from a random one on. */
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
function shardOf(subKey: string, shards: number): number {
  return Math.floor((hash32(subKey) * shards) / 2 ** 32);
}

function shardName(key: string, shard: number): string {
  return `${key}#shard-${shard}`;
}

function checkSharding(key: unknown, shards: unknown): void {
  const isCount = typeof shards === 'number' && Number.isInteger(shards);
  if (!isCount || shards < 1 || shards > MAX_SHARDS) {
    throw new HoldfastError(
      'OPTION_INVALID',
      `shards must be a whole number from 1 to ${MAX_SHARDS}, got ${shown(shards)}; no key was ` +
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
  throw new HoldfastError(
    'OPTION_INVALID',
    `${problem}; no key was made; give a sub-key, or leave the options out for a random shard`,
  );
}
