/**
 * The settings of every session on which the engine's statements run. They allow only the plans that were measured: index
 * scans and nested loops, planned once. A queue table is empty one minute and holds five million rows the next, and its
 * statistics lag behind; with these a plan made in the first minute is still the right one. See docs/decisions/0002.
 */
export const ENGINE_SETTINGS: Readonly<Record<string, string>> = {
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  plan_cache_mode: 'force_generic_plan',
  jit: 'off',
  // The statements lock what they change; a stricter default would only make them fail.
  default_transaction_isolation: 'read committed',
  // Somebody may hold the lock of one row for long; the other rows of a statement must not wait for it.
  lock_timeout: '500ms',
  // A limit of the role's is meant for questions of people; a batch that it cuts short would be sent for ever.
  statement_timeout: '0',
  // Timestamps are kept as text; this is the form that goes back in and that Date understands.
  datestyle: 'ISO',
  timezone: 'UTC',
};
