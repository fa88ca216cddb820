// The world of the profile `shapes`: a sink and receivers of webhooks beside the fleet, and the harness's own connection, by
// which endpoints are made, disabled, enabled and given new secrets, and the read model is built anew.
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { ENDPOINTS, MODEL, PROJECTION, SHAPE_QUEUES, shapesOf } from './actors/shapes.mjs';
import { openHook, openSink } from './receivers.mjs';

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const ENABLE_MS = 1_000;

/** What is acknowledged and not in the read model yet, as rows beside the unfinished jobs. */
const UNAPPLIED = `SELECT e.id, e.type, 'unapplied', NULL, e.key, 0, 0, e.written_at, NULL, 'event_log', e.data
  FROM holdfast.event_log AS e
  WHERE NOT EXISTS (SELECT FROM ${MODEL}.applied AS a WHERE a.event_id = e.id)`;

const unfinished = (
  queue,
) => `SELECT id, type, status::text, claimed_by, partition_key, attempts, crashes, available_at,
  lease_expires_at, '${queue}', payload FROM holdfast.${queue} WHERE status <> 'dead_letter'`;

/** Until it succeeds: the server may be away, and sessions are ended. */
export async function again(ask, giveUp = () => false) {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (giveUp()) throw error;
      await sleep(100);
    }
  }
}

export async function openShapes(world, history, seed) {
  const { holdfast } = await import(pathToFileURL(world.product).href);
  const hf = holdfast({ connectionString: world.server.url, logger: quiet });
  const shapes = await shapesOf(hf, world.product);
  await shapes.events.create();
  await shapes.hooks.create();
  const sink = await openSink(history, seed);
  const endpoints = [];
  for (const { name, ...options } of ENDPOINTS) {
    const receiver = await openHook(history, seed, name);
    const { id, secret } = await shapes.hooks.endpoints.create({ ...options, url: receiver.url });
    receiver.learn(secret);
    endpoints.push({ ...{ id, name, receiver }, isAway: false });
  }
  world.shapes = {
    ...{ hf, sink, endpoints, hooks: shapes.hooks, projections: shapes.projections },
    config: { sinkUrl: sink.url },
    unfinished: [...SHAPE_QUEUES.map(unfinished), UNAPPLIED],
  };
}

/** Nobody treats anybody badly on purpose any more. An attempt from before may still disable its endpoint. */
export function healShapes({ shapes }) {
  for (const { mode, receiver } of [shapes.sink, ...shapes.endpoints].map((one) => ({
    mode: 'ok',
    receiver: one.receiver ?? one,
  })))
    receiver.turn(mode);
  shapes.healing = setInterval(() => void enableAll(shapes).catch(() => {}), ENABLE_MS);
}

async function enableAll({ hooks, endpoints }) {
  for (const { id } of endpoints)
    if ((await hooks.endpoints.get(id)).state === 'disabled') await hooks.endpoints.enable(id);
}

export async function closeShapes({ shapes }) {
  if (!shapes) return;
  clearInterval(shapes.healing);
  await Promise.all(
    [shapes.sink, ...shapes.endpoints.map(({ receiver }) => receiver)].map((one) => one.close()),
  );
  await shapes.hf.close();
}

/** What the checker reads of the shapes. */
export const shapeReads = {
  publications: 'SELECT op, tenant, type, events FROM torture.publications',
  log: 'SELECT id, key, type, position::int, data FROM holdfast.event_log ORDER BY position',
  applied: `SELECT seq::int, event_id AS id, key, position::int FROM ${MODEL}.applied ORDER BY seq`,
  totals: `SELECT key, events, cents::int FROM ${MODEL}.totals`,
  projections: `SELECT p.id::int, p.state, p.stream,
    (SELECT count(*)::int FROM holdfast.projection_stops AS s WHERE s.projection_id = p.id) AS stops
    FROM holdfast.projections AS p WHERE p.name = '${PROJECTION}'`,
  lags: `SELECT (extract(epoch FROM a.at - e.written_at) * 1000)::float8 AS ms,
    (extract(epoch FROM e.written_at) * 1000)::float8 AS at, e.slice
    FROM ${MODEL}.applied AS a JOIN holdfast.event_log AS e ON e.id = a.event_id ORDER BY 1`,
  shapeJobs: SHAPE_QUEUES.map(
    (
      queue,
    ) => `SELECT id, '${queue}' AS queue, status::text, attempts, payload, history FROM holdfast.${queue}
    UNION ALL SELECT id, '${queue}', status::text, attempts, payload, history FROM holdfast.${queue}_archive`,
  ).join(' UNION ALL '),
};
