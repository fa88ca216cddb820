/**
 * Keys of a strict queue that a dead letter holds while due jobs wait behind it. A bounded number of dead letters is looked
 * at, by age: `more` says that there are others.
 */
import { bool, int8, text, uuid } from '../../postgres/statement.js';
import { asksOne } from '../reading/asks.js';
import { recorded } from '../reading/columns.js';

const MAX_DEAD = 2_000;

export const heldKeys = asksOne({
  name: 'held_keys',
  text: `
SELECT count(*) AS keys, (SELECT count(*) FROM (
    SELECT FROM holdfast.inbox AS i WHERE i.available_at = 'infinity' LIMIT ${MAX_DEAD}) AS dead) >= ${MAX_DEAD} AS more,
  (array_agg(h.id ORDER BY h.id))[1] AS oldest, (array_agg(h.key ORDER BY h.id))[1] AS key,
  (array_agg(h.type ORDER BY h.id))[1] AS type, (array_agg(h.died_at ORDER BY h.id))[1] AS died_at,
  (array_agg(h.error ORDER BY h.id))[1] AS error
FROM (
  SELECT d.id, d.partition_key AS key, d.type, left(d.last_error, 200) AS error, d.history #>> '{-1,at}' AS died_at
  FROM (
    SELECT * FROM holdfast.inbox AS i WHERE i.available_at = 'infinity' ORDER BY i.id LIMIT ${MAX_DEAD}
  ) AS d
  WHERE d.status = 'dead_letter' AND NOT d.parked AND EXISTS (
    SELECT FROM holdfast.inbox AS b
    WHERE b.partition_bucket = d.partition_bucket AND b.partition_key COLLATE "C" = d.partition_key
      AND NOT b.parked AND b.position > d.position AND b.status = 'pending' AND b.available_at <= now())
) AS h`,
  columns: {
    keys: int8,
    more: bool,
    /** The dead letter that was enqueued first, its key, and its last error; null: there is none. */
    oldest: uuid.orNull,
    key: text.orNull,
    type: text.orNull,
    died_at: recorded,
    error: text.orNull,
  },
});

export type HeldKeys = Awaited<ReturnType<typeof heldKeys>>;
