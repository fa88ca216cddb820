/** Jobs that a person holds back: their queue, type or key is paused. Whoever asks joins `holdfast.queues AS q`. */
export const ON_HOLD = (job: string) =>
  `(q.paused OR ${job}.type = ANY (q.paused_types) OR ${job}.partition_key = ANY (q.paused_keys)) IS TRUE`;

const OF_QUEUE = (column: string) =>
  `(SELECT q.${column} FROM holdfast.queues AS q WHERE q.name = 'inbox')`;

/** Lines `l` none of whose jobs is held back by its queue or its type. */
export const OPEN_LINES = `NOT ${OF_QUEUE('paused')}
      AND (l.type = ANY (${OF_QUEUE('paused_types')}::text[])) IS NOT TRUE`;
