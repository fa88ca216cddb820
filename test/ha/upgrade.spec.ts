/**
 * A stopped queue is carried to another cluster: by pg_upgrade, and by dump and restore into a newer major version.
 * What was there before is there after it, row by row, and a fleet goes on with it.
 */
import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startEmbedded } from '../../packages/embedded/src/index.js';
import { job } from '../../packages/holdfast/src/index.js';
import { type Ground, groundOn } from '../support/ground.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';
import { Fleet, settled, shopOn, startWorkers } from './fleet.js';
import { follow, followAnywhere, leftOut, looksWell } from './page.js';
import { installedVersions, Server, Site, type Version } from './postgres.js';

const versions = installedVersions();
const [version] = versions;
const newest = versions.at(-1);
const MINUTES = { timeout: 300_000 };

const start = testWorkers();
const step = job<{ n: number }>('step', { queue: 'orders' });

/** The rows of every table, as one number each. */
async function contents(db: Ground): Promise<Record<string, string>> {
  const tables = await db.rows<{ name: string }>(
    `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
     WHERE schemaname IN ('holdfast', 'public') ORDER BY 1`,
  );
  const found: Record<string, string> = {};
  for (const { name } of tables) {
    const [row] = await db.rows<{ sum: string }>(
      `SELECT count(*) || ' ' || md5(coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '')) AS sum FROM ${name} AS t`,
    );
    found[name] = row?.sum as string;
  }
  return found;
}

/** A queue with a past, and with jobs in every state that outlives its workers. */
async function stoppedShop(server: Server): Promise<{ db: Ground; accepted: string[] }> {
  const db = await shopOn(server.url);
  const fleet = await Fleet.begin(db);
  await fleet.goesOn();
  await fleet.stopWorkers();
  // What nobody runs any more waits.
  await fleet.acceptsMore();
  await fleet.stopProducers();
  await db.hf.createQueue('orders', { ordering: 'key' });
  await db.hf.enqueueMany(
    Array.from({ length: 30 }, (_, n) => step.item({ n }, { partitionKey: `order:${n % 5}` })),
  );
  await db.hf.enqueue(job('later'), {}, { delay: '1h' });
  await db.hf.schedule('nightly', { cron: '0 3 * * *', job: job('report'), payload: {} });
  await db.hf.pause('orders', { reason: 'an upgrade' });
  return { db, accepted: fleet.accepted };
}

/** On the new server: all is there, the doctor is content, and workers do what was left. */
async function carriedOver(
  before: Readonly<Record<string, string>>,
  url: string,
  look: () => Promise<void>,
  accepted: readonly string[],
): Promise<void> {
  const db = await groundOn(url, { tables: false });
  const { hf } = db;
  expect(await contents(db)).toEqual(before);
  const workers = await startWorkers(url);
  const ran: number[] = [];
  start(hf, (worker) => worker.handle(step, ({ payload }) => void ran.push(payload.n)));
  await look();
  expect((await hf.schedules.get('nightly')).nextAt?.getTime()).toBeGreaterThan(Date.now());
  expect((await hf.audit({ act: 'pause' })).acts).toMatchObject([{ reason: 'an upgrade' }]);
  // The delayed job and the paused queue wait as before.
  const [inbox, orders] = await hf.queues();
  expect(orders).toMatchObject({ queue: 'orders', paused: true, pending: 30 });
  expect(inbox).toMatchObject({ queue: 'inbox', deadLetter: 0 });
  await hf.resume('orders');
  await until('the other queue is done', () => ran.length === 30);
  for (let key = 0; key < 5; key++) {
    const own = ran.filter((n) => n % 5 === key);
    expect(own).toEqual(own.toSorted((a, b) => a - b));
  }
  const { jobs } = await hf.jobs({ filter: { type: 'later' } });
  await hf.cancel(jobs.map(({ id }) => id));
  await db.rows(`DELETE FROM holdfast.inbox_archive WHERE status = 'cancelled'`);
  expect(await settled(db, accepted)).toEqual([]);
  for (const worker of workers) worker.signal('SIGTERM');
  for (const worker of workers) expect(await worker.exited).toMatchObject({ code: 0 });
}

async function createShop(server: string): Promise<string> {
  const client = new pg.Client({ connectionString: server });
  await client.connect();
  await client.query('CREATE DATABASE shop');
  await client.end();
  const url = new URL(server);
  url.pathname = '/shop';
  return url.href;
}

describe.skipIf(!version)('a stopped queue', () => {
  const upgrade = async (from: Version, to: Version) => {
    const site = new Site();
    const old = await Server.at(site, from, 'old');
    await old.create();
    const { db, accepted } = await stoppedShop(old);
    const before = await contents(db);
    const fresh = await Server.at(site, to, 'fresh');
    const names = { OLD_BIN: from.bin, NEW_BIN: to.bin, NEW_DATA: fresh.data };
    const section = 'A major version with pg_upgrade';
    await follow(section, { primary: old }, names, 0);
    fresh.configure();
    await follow(section, { 'new server': fresh }, {}, 1);
    await carriedOver(before, fresh.url, () => looksWell(fresh, fresh.url), accepted);
  };

  test('is upgraded with pg_upgrade, to a cluster of the same version', MINUTES, () =>
    upgrade(version as Version, version as Version),
  );

  test.skipIf(versions.length < 2)(
    'is upgraded with pg_upgrade to a newer major version',
    MINUTES,
    () => upgrade(version as Version, newest as Version),
  );

  test('is dumped and restored into the newest major version', MINUTES, async () => {
    const site = new Site();
    const old = await Server.at(site, version as Version, 'old');
    await old.create();
    const { db, accepted } = await stoppedShop(old);
    const before = await contents(db);
    const server = await startEmbedded({ throwaway: true });
    onTestFinished(() => server.stop());
    const url = await createShop(server.url);
    const names = { OLD_URL: old.url, NEW_URL: url };
    await followAnywhere('A major version by dump and restore', old, names);
    await carriedOver(before, url, () => looksWell(old, url), accepted);
  });

  test('every step of the page was followed', () => {
    const sections = ['A major version with pg_upgrade', 'A major version by dump and restore'];
    expect(leftOut(sections)).toEqual([]);
  });
});
