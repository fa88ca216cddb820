/** What the tests of projections share: a log of orders, a projection of what was paid, and SQL that says the same. */
import {
  type ApplyByType,
  type EventLog,
  eventLog,
  type LoggedEvent,
  type Projection,
  type ProjectionOptions,
  project,
  projection,
} from 'holdfast/projections';
import { afterEach } from 'vitest';
import type { Holdfast, WorkerOptions } from '../../../packages/holdfast/src/index.js';
import { type TestGround, testDatabase } from '../../support/database.js';
import { until } from '../../support/until.js';

export type Paid = LoggedEvent<{ cents: number }>;

/** The history of each key as text, so that the order shows, and a sum, so that a repetition does. */
export const TOTALS = `CREATE TABLE totals (
  key text PRIMARY KEY, cents bigint NOT NULL, events integer NOT NULL, line text NOT NULL)`;

export const ADD = `
INSERT INTO totals AS t VALUES ($1, $2::bigint, 1, $2::bigint::text)
ON CONFLICT (key) DO UPDATE SET cents = t.cents + excluded.cents, events = t.events + 1,
  line = t.line || ',' || excluded.line`;

/** What the log says, computed by SQL alone. */
export const TRUTH = `
SELECT key, sum((data ->> 'cents')::bigint)::bigint AS cents, count(*)::integer AS events,
  string_agg(data ->> 'cents', ',' ORDER BY position) AS line
FROM holdfast.event_log WHERE stream = 'orders' AND type = 'order.paid' GROUP BY key ORDER BY key`;

export const MODEL = 'SELECT key, cents, events, line FROM order_totals.totals ORDER BY key';

type More = Partial<Pick<ProjectionOptions, 'version' | 'shards' | 'page' | 'promote'>> & {
  readonly on?: ApplyByType;
};

export const totalsOf = (log: EventLog, more: More = {}): Projection =>
  projection('order_totals', {
    ...{ log, shards: 4 },
    create: (tx) => tx.query(TOTALS),
    on: {
      'order.paid': (event: Paid, tx) => tx.query(ADD, [event.key, event.data.cents]),
    },
    ...more,
  });

export const ordersOf = (hf: Holdfast) => eventLog(hf, 'orders');

export const paid = (key: string, cents: number) => ({ type: 'order.paid', key, data: { cents } });

/** One database for a file, whose queue is made once; each test has it without logs and projections. */
export function testLogs(): () => Promise<TestGround> {
  const db = testDatabase();
  return async () => {
    await db.rows(
      `TRUNCATE holdfast.event_log, holdfast.projections, holdfast.workers RESTART IDENTITY CASCADE`,
    );
    const [made] = await db.rows(`SELECT FROM holdfast.queues WHERE name = 'projectors'`);
    if (made) await db.rows('TRUNCATE holdfast.projectors, holdfast.projectors_claims');
    const built = await db.rows<{ name: string }>(
      `SELECT nspname AS name FROM pg_namespace WHERE nspname LIKE 'order_totals%'`,
    );
    for (const { name } of built) await db.rows(`DROP SCHEMA "${name}" CASCADE`);
    return db;
  };
}

/** As a younger cluster sees it: all xids in the tables lie far ahead of its counter. */
export const RESTORED = `
UPDATE holdfast.event_log SET xid = (xid::text::bigint + 1000000000)::text::xid8;
UPDATE holdfast.projection_cursors SET read_mark = (read_mark::text::bigint + 1000000000)::text::xid8,
  read_snapshot = concat_ws(':', pg_snapshot_xmin(read_snapshot)::text::bigint + 1000000000,
    pg_snapshot_xmax(read_snapshot)::text::bigint + 1000000000,
    (SELECT coalesce(string_agg((x::text::bigint + 1000000000)::text, ',' ORDER BY x), '')
      FROM pg_snapshot_xip(read_snapshot) AS x))::pg_snapshot
WHERE read_top > 0;
UPDATE holdfast.projections SET cluster = 'another'`;

export type Rows = (text: string, params?: unknown[]) => Promise<object[]>;

/** Until the read model says what the log says. */
export async function agreed(rows: Rows, timeoutMs = 20_000): Promise<object[]> {
  let last = '';
  const found = await until(
    'the read model and the log agree',
    async () => {
      const [truth, model] = [await rows(TRUTH), await rows(MODEL).catch(() => [])];
      last = `${JSON.stringify(model).slice(0, 2_000)} instead of ${JSON.stringify(truth).slice(0, 2_000)}`;
      return JSON.stringify(truth) === JSON.stringify(model) ? truth : undefined;
    },
    { timeoutMs },
  ).catch((error) => {
    throw new Error(`${error.message}: ${last}`);
  });
  return found;
}

/** Workers that project for the length of one test. */
export function testProjectors() {
  const open: { stop(): Promise<void> }[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((one) => one.stop()));
  });
  return async (hf: Holdfast, projections: readonly Projection[], options: WorkerOptions = {}) => {
    const worker = hf.worker({ handleSignals: false, poll: '50ms', ...options });
    await project(worker, projections);
    const running = worker.run();
    running.catch(() => undefined);
    open.push({ stop: () => worker.stop() });
    return worker;
  };
}
