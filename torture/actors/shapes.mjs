// The shapes of the torture: an outbox with a relay, an event log with a projection, and webhooks. Producers publish one
// and the same events to all three, in one transaction with a row of their own; workers relay, project and deliver.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import pg from 'pg';
import { monotonicMs } from '../history.mjs';

/** Beside the queues of jobs: what is in them must be done at the end, too. */
export const SHAPE_QUEUES = ['outbox', 'webhooks', 'webhooks_ordered'];

/** The read model's schema. */
export const MODEL = 'torture_totals';
export const PROJECTION = 'totals';

/** Endpoints of two customers. */
export const ENDPOINTS = [
  { name: 'ordered-0', tenant: 't0', ordered: true },
  { name: 'wide-0', tenant: 't0', concurrency: 4 },
  { name: 'ordered-1', tenant: 't1', ordered: true },
  { name: 'rated-1', tenant: 't1', rate: { limit: 30, per: '1s', burst: 5 } },
  { name: 'refunds-1', tenant: 't1', events: ['order.refunded'] },
];

const KEYS = 8;
/** Publications a second, of each job a second that is offered. */
const SHARE = 0.08;
const MAX_OPEN = 4;
/** So many retries that no outage of a run spends them all. */
const RETRIES = Array.from({ length: 100 }, () => '500ms');
const PATIENCE = { ackTimeout: '1500ms', maxWait: '3s', maxPause: '1s' };

/** What users install, or the compiled modules of a mutant. */
async function entries(product) {
  const folder = dirname(product);
  const load = (entry, module) => {
    const built = join(folder, `${entry}.js`);
    return import(pathToFileURL(existsSync(built) ? built : join(folder, 'shapes', module)).href);
  };
  const all = await Promise.all([
    load('outbox', 'outbox/index.js'),
    load('outbox-http', 'outbox/sinks/http.js'),
    load('projections', 'projections/index.js'),
    load('webhooks', 'webhooks/index.js'),
  ]);
  return Object.assign({}, ...all);
}

/** In each process the same. */
export async function shapesOf(hf, product) {
  const made = await entries(product);
  const log = made.eventLog(hf, 'orders');
  return {
    ...{ made, log },
    events: made.outbox(hf, { queue: 'outbox' }),
    projections: made.projections(hf),
    hooks: made.webhooks(hf, {
      ...{ allowHttp: true, allow: ['127.0.0.0/8'], timeout: '1500ms', retry: RETRIES },
      disableAfter: 'never',
    }),
    totals: made.projection(PROJECTION, {
      ...{ log, schema: MODEL, shards: 2, page: 50 },
      async create(tx) {
        await tx.query(
          `CREATE TABLE totals (key text PRIMARY KEY, events integer NOT NULL, cents bigint NOT NULL)`,
        );
        await tx.query(`CREATE TABLE applied (seq bigserial PRIMARY KEY, event_id uuid NOT NULL, key text NOT NULL,
          position bigint NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())`);
        await tx.query('CREATE INDEX ON applied (event_id)');
      },
      apply: applyPage,
    }),
  };
}

/** It cannot be repeated without a trace. */
async function applyPage(events, tx) {
  const facts = events.map(({ id, key, position, type, data }) => ({
    ...{ id, key, position, cents: type === 'order.paid' ? data.cents : -data.cents },
  }));
  await tx.query(
    `WITH e AS MATERIALIZED (
       SELECT * FROM jsonb_to_recordset($1) AS e(id uuid, key text, position bigint, cents bigint)
     ), a AS (
       INSERT INTO applied (event_id, key, position) SELECT e.id, e.key, e.position FROM e ORDER BY e.position
     )
     INSERT INTO totals AS t SELECT e.key, count(*), sum(e.cents) FROM e GROUP BY e.key
     ON CONFLICT (key) DO UPDATE SET events = t.events + excluded.events, cents = t.cents + excluded.cents`,
    [JSON.stringify(facts)],
  );
}

/** A process that was told so stands still where it has read a page and not written it, unless there is none for so long. */
const FREEZE_WITHIN_MS = 3_000;

/** At the statement that moves a cursor past some events, the first one of the page's transaction. */
const movesCursor = (what) =>
  /projection_cursors[\s\S]*at_position = CASE/.test(what?.text ?? '') &&
  Number(what.values[9]) > 0;

function freezeOnDemand() {
  let until = 0;
  process.on('SIGUSR2', () => {
    until = performance.now() + FREEZE_WITHIN_MS;
  });
  const { query } = pg.Client.prototype;
  pg.Client.prototype.query = function (what, ...more) {
    if (performance.now() < until && movesCursor(what)) {
      until = 0;
      process.kill(process.pid, 'SIGSTOP');
    }
    return query.call(this, what, ...more);
  };
}

/** Relay, deliver and project with this worker. A database that is away at the start is waited for. */
export async function addShapes(worker, hf, { product, shapes: { sinkUrl } }, history) {
  freezeOnDemand();
  const { made, events, hooks, totals } = await shapesOf(hf, product);
  made.relay(worker, events, made.httpSink({ url: sinkUrl }), PATIENCE);
  hooks.deliver(worker);
  for (;;) {
    try {
      return await made.project(worker, [totals]);
    } catch (error) {
      const { code, message } = error;
      history.record('error', 'note', { what: 'project()', code, message: String(message) });
      await sleep(200);
    }
  }
}

/** Publishes until it is told to stop. `pace` says how fast jobs are offered, and when it is over. */
export async function publishing({ hf, pool, random, history }, config, pace) {
  const { events, log, hooks } = await shapesOf(hf, config.product);
  const lines = Array.from({ length: KEYS }, (_, k) => ({
    ...{ key: `${config.name}:${k}`, tenant: `t${k % 2}`, n: 0, busy: false },
  }));
  // An id of a webhook has no dots.
  const name = config.name.replaceAll('.', '_');
  let operations = 0;

  /** Events of one key, or of nobody if they are to be rolled back. */
  function next() {
    const free = lines.filter(({ busy }) => !busy);
    if (free.length === 0) return null;
    const line = random.pick(free);
    const op = `${name}-shapes-${String(++operations).padStart(6, '0')}`;
    const rollBack = random.chance(0.05);
    const type = random.chance(0.3) ? 'order.refunded' : 'order.paid';
    const all = Array.from({ length: random.integer(1, 3) }, (_, i) => ({
      ...{ type, key: line.key },
      data: { op, i, n: rollBack ? -1 : line.n++, cents: random.integer(1, 9_999) },
    }));
    // Some commit late, behind what projectors have read.
    return {
      op,
      line,
      type,
      all,
      rollBack,
      openMs: random.chance(0.1) ? random.integer(20, 900) : 0,
    };
  }

  async function attempt({ op, line, type, all, rollBack, openMs }) {
    const client = await pool.connect();
    let broken = true;
    try {
      await client.query('BEGIN');
      const { rowCount } = await client.query(
        `INSERT INTO torture.publications (op, tenant, type, events) VALUES ($1, $2, $3, $4)
         ON CONFLICT DO NOTHING`,
        [op, line.tenant, type, JSON.stringify(all)],
      );
      // The answer to an earlier COMMIT was lost.
      if (rowCount > 0) {
        await log.append(all, { tx: client });
        const keyed = all.map((event, i) => ({ ...event, idempotencyKey: `${op}#${i}` }));
        await events.publish(keyed, { tx: client });
        const { tenant, key } = line;
        const data = { op, key, n: all[0].data.n };
        await hooks.send({ tenant, type, data, id: op }, { tx: client });
        if (openMs > 0) await sleep(openMs);
      }
      await client.query(rollBack ? 'ROLLBACK' : 'COMMIT');
      broken = false;
    } finally {
      client.release(broken);
    }
  }

  async function perform(operation) {
    const { op, rollBack } = operation;
    for (;;) {
      history.record('publish', 'invoke', { of: op, rollBack });
      try {
        await attempt(operation);
        return history.record('publish', rollBack ? 'fail' : 'ok', { of: op });
      } catch (error) {
        const { code, message } = error;
        history.record('publish', 'unknown', { of: op, code, message: String(message) });
        if (rollBack) return history.record('publish', 'fail', { of: op });
        await sleep(50 + random.next() * 150);
      }
    }
  }

  const open = new Set();
  let due = monotonicMs();
  while (!pace().stopping) {
    const now = monotonicMs();
    due = Math.max(due, now - 500);
    while (due <= now && open.size < MAX_OPEN && pace().rate > 0) {
      const operation = next();
      if (!operation) break;
      operation.line.busy = true;
      const done = perform(operation).then(() => {
        operation.line.busy = false;
        open.delete(done);
      });
      open.add(done);
      due += 1_000 / (SHARE * pace().rate);
    }
    await sleep(20);
  }
  await Promise.all(open);
}
