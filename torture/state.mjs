// The final state of the database, as the checker wants it: plain arrays, read once, after the drain.
import { ENDPOINTS } from './actors/shapes.mjs';
import { sqlUntil } from './server.mjs';
import { shapeReads } from './shapes.mjs';

const readsOf = (both) => ({
  /** Every job that exists: finished ones, and dead letters. */
  jobs: both(
    (queue) => `
    SELECT id, '${queue}' AS queue, type, version, status::text, lease_generation::int AS generation, claimed_by AS owner,
      partition_key AS key, attempts, idempotency_key AS idem, payload, history,
      (extract(epoch FROM completed_at) * 1000)::float8 AS at, NULL::bigint AS position
    FROM holdfast.${queue}_archive
    UNION ALL
    SELECT id, '${queue}', type, version, status::text, lease_generation::int, claimed_by, partition_key, attempts,
      idempotency_key, payload, history, NULL, position
    FROM holdfast.${queue}`,
  ),
  idempotency: both((queue) => `SELECT key, job_id AS job FROM holdfast.${queue}_idempotency`),
  markers: both(
    (queue) => `SELECT job_id AS job, name, generation::int FROM holdfast.${queue}_effects`,
  ),
  claims: both(
    (queue) =>
      `SELECT worker_id AS worker, cardinality(jobs) AS jobs FROM holdfast.${queue}_claims`,
  ),
  workers: 'SELECT id, status FROM holdfast.workers',
  orders: 'SELECT op, jobs FROM torture.orders',
  effects: 'SELECT job, generation::int, worker FROM torture.effects ORDER BY seq',
  flows: 'SELECT run, what, version, facts FROM torture.flows ORDER BY seq',
  signals:
    'SELECT run_id AS run, name, key, taken_by, value FROM holdfast.inbox_signals ORDER BY run_id, id',
  witness: `SELECT seq::int, (extract(epoch FROM at) * 1000)::float8 AS at, tx, kind, job, queue, key,
    position::int, generation::int, owner, was_status, was_owner, was_expired, crashed, outcome, made_by
    FROM torture.witness ORDER BY seq`,
});

export async function readState({ server: { url }, queues, shapes }) {
  const state = { ...(shapes && { endpoints: ENDPOINTS }) };
  const reads = {
    ...readsOf((text) => queues.map(text).join(' UNION ALL ')),
    ...(shapes && shapeReads),
  };
  for (const [name, text] of Object.entries(reads))
    state[name] = await sqlUntil(url, text, [], 120_000);
  return state;
}
