/** What the owner of a shard works with. */
import type pg from 'pg';
import type { Logger } from '../../../postgres/log/log.js';
import type { Names } from '../../../postgres/names.js';
import type { Projection } from '../projection.js';
import type { Holder, TakenCursor } from '../rows/cursor.js';
import type { Watch } from './watch.js';

export interface ShardDeps {
  readonly projection: Projection;
  readonly pool: pg.Pool;
  /** Of the queue with the jobs of shards. */
  readonly names: Names;
  readonly watch: Watch;
  readonly prepare: boolean;
  /** Null: the role may not read it. */
  readonly cluster: string | null;
  readonly log: Logger;
}

/** A shard in the hands of this process. */
export interface Shard {
  readonly projectionId: number;
  readonly shard: number;
  readonly holder: Holder;
  readonly taken: TakenCursor;
}
