/**
 * The start, step by step and each with its time: a database, its schema, the shop, what an
 * earlier run left, the fleet; then where to look.
 */

import { type Holdfast, holdfast } from 'holdfast';
import { plainPool } from 'holdfast/internal';
import type pg from 'pg';
import { type DemoDashboard, openDashboard } from './dashboard.js';
import { type DemoDatabase, openDatabase } from './database.js';
import { openHooks } from './events/news.js';
import { openReceivers, type Receivers } from './events/receivers.js';
import { Fleet } from './fleet/fleet.js';
import { Recoveries } from './fleet/recoveries.js';
import { DemoLab } from './lab.js';
import type { Screen } from './screen.js';
import { type Leftovers, settleLeftovers } from './shop/leftovers.js';
import { openShop } from './shop/shop.js';
import { openTill } from './shop/till.js';

const WORKERS = 4;
const CONNECTIONS = 6;
const count = (value: number) => value.toLocaleString('en');
const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

export interface Opened {
  readonly dashboard: DemoDashboard;
  readonly lab: DemoLab;
  readonly database: DemoDatabase;
  readonly pool: pg.Pool;
  readonly hf: Holdfast;
  readonly receivers: Receivers;
  readonly fleet: Fleet;
  readonly recoveries: Recoveries;
  /** Orders that were there before this run. */
  readonly ordersBefore: number;
}

export async function openDemo(screen: Screen): Promise<Opened> {
  const { say } = screen;
  const lab = new DemoLab();
  screen.onSay = (text) => lab.record(text);
  const dashboard = await openDashboard(lab);
  screen.print(['dashboard', 'bold'], `  ${dashboard.url}`);
  screen.print(
    ['holdfast demo', 'bold'],
    ': a small shop on Postgres, and a fleet that works for it',
  );
  const database = await openDatabase(say);
  const connection = { connectionString: database.url, applicationName: 'shop' };
  const pool = plainPool(connection, CONNECTIONS, quiet);
  const hf = holdfast({ connectionString: database.url, pool, logger: quiet });
  await hf.migrate();
  await openShop(pool, hf);
  await openTill(pool, hf);
  const receivers = await openReceivers(pool);
  dashboard.show(hf);
  say('the tables are there: holdfast.orders for jobs, shop.orders for orders');
  // It stays connected until the end: its lock tells another demo that this one is running.
  const session = await pool.connect();
  const leftovers = await settleLeftovers(pool, hf, session);
  tellLeftovers(leftovers, say);
  // Counted from zero by a run that is alone.
  if (!leftovers.shared) await pool.query('TRUNCATE shop.office, shop.tills');
  const recoveries = new Recoveries();
  const urls = { databaseUrl: database.url, receiversUrl: receivers.url };
  const fleet = new Fleet({ ...urls, recoveries, say });
  say(`starting ${WORKERS} worker processes`);
  const workers = Array.from({ length: WORKERS }, () => fleet.add());
  await Promise.all([openHooks(hf, receivers.url), ...workers]);
  say('they are registered, and share the keys');
  screen.print();
  screen.print(`  dashboard   ${dashboard.url}`);
  screen.print(`  psql        psql '${database.shownUrl}'`);
  screen.print();
  const ordersBefore = leftovers.kept.orders;
  return { dashboard, lab, database, pool, hf, receivers, fleet, recoveries, ordersBefore };
}

function tellLeftovers(
  { shared, sound, found, kept }: Leftovers,
  say: (text: string) => void,
): void {
  if (shared) say('another demo runs on this database; the figures are those of both');
  if (found.orders === 0) return;
  if (!sound) {
    say('an earlier run left what the proof does not accept; it is kept, and this run will fail.');
    say(`To begin anew, drop the database holdfast_demo or delete .holdfast.`);
  } else if (!shared) {
    const done = count(found.orders - kept.orders);
    const left = kept.accepted - kept.completed;
    say(`an earlier run left ${count(found.orders)} orders: 0 lost, 0 doubled, ${done} done`);
    if (left > 0) say(`${count(left)} jobs of the others go on where they were`);
  }
}
