/**
 * A primary and a streaming standby under a fleet at work: promoted, rewound, upgraded one after the other. Every step
 * is one of docs/high-availability.md. Nobody restarts a worker or a producer.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type Line, openLine } from '../../torture/proxy.mjs';
import { until } from '../support/until.js';
import { Fleet, shopOn } from './fleet.js';
import { follow, leftOut, looksWell } from './page.js';
import { conninfoOf, installedVersions, Server, Site } from './postgres.js';

const [version] = installedVersions();
const MINUTES = { timeout: 300_000 };

interface Pair {
  readonly primary: Server;
  readonly standby: Server;
  /** What workers and producers connect to. */
  readonly address: Line;
  /** What the standby connects to. */
  readonly wire: Line;
  readonly fleet: Fleet;
}

async function line(url: string): Promise<Line> {
  const opened = await openLine(url);
  onTestFinished(() => opened.stop());
  return opened;
}

/** The standby's rows of pg_stat_replication, as `state sync_state`. */
async function followers(primary: Server): Promise<string> {
  const { out } = await primary.run(
    `psql --no-align --tuples-only --field-separator=' ' --command="SELECT state, sync_state FROM pg_stat_replication WHERE application_name = 'standby'"`,
  );
  return out.trim();
}

const follows = (primary: Server, how: 'async' | 'sync') =>
  until(
    `the standby follows, ${how}`,
    async () => (await followers(primary)) === `streaming ${how}`,
    { timeoutMs: 60_000, everyMs: 200 },
  );

/** The standby has received all that was committed until now. */
async function caughtUp(primary: Server): Promise<void> {
  const ask = async (sql: string) =>
    (await primary.run(`psql --no-align --tuples-only --command="${sql}"`)).out.trim();
  const now = await ask('SELECT pg_current_wal_lsn()');
  const received = `SELECT flush_lsn >= '${now}' FROM pg_stat_replication`;
  await until('the standby has caught up', async () => (await ask(received)) === 't');
}

async function startPair(synchronous: boolean): Promise<Pair> {
  if (!version) throw new Error('there is no Postgres');
  const site = new Site();
  const primary = await Server.at(site, version, 'one');
  await primary.create();
  const standby = await Server.at(site, version, 'two');
  const wire = await line(primary.url);
  const places = { primary, standby };
  const PRIMARY = conninfoOf('127.0.0.1', new URL(wire.url).port);
  await follow('A standby', places, { PRIMARY }, 0);
  await follows(primary, 'async');
  if (synchronous) {
    await follow('A standby', places, {}, 1);
    await follows(primary, 'sync');
  }
  const address = await line(primary.url);
  const fleet = await Fleet.begin(await shopOn(address.url));
  await fleet.goesOn();
  return { primary, standby, address, wire, fleet };
}

describe.skipIf(!version)('a pair of servers', () => {
  test(
    'synchronous: the primary is killed, nothing that was accepted is lost, and it comes back as a standby',
    MINUTES,
    async () => {
      const { primary, standby, address, fleet } = await startPair(true);
      await fleet.acceptsMore();
      await primary.kill();
      await follow('The primary is lost', { standby });
      address.pointTo(standby.url);
      await fleet.goesOn();

      const places = { 'old primary': primary, 'new primary': standby };
      await follow('The old primary comes back', places, { PRIMARY: standby.conninfo });
      await follows(standby, 'async');
      await follow('A standby', { primary: standby, standby: primary }, {}, 1);
      await follows(standby, 'sync');
      await fleet.goesOn();
      await looksWell(standby, address.url);
      expect(await fleet.settles()).toEqual([]);
      expect(fleet.accepted.length).toBeGreaterThan(400);
      await fleet.stopWorkers();
    },
  );

  test(
    'asynchronous: what was lost is counted and named, the rest is done once, and the old primary is rewound',
    MINUTES,
    async () => {
      const { primary, standby, address, wire, fleet } = await startPair(false);
      const received = new Set(fleet.accepted);
      await caughtUp(primary);
      // The standby falls behind, and then the primary dies.
      wire.closed = true;
      wire.resetAll();
      await fleet.acceptsMore(200);
      await primary.kill();
      await follow('The primary is lost', { standby });
      address.pointTo(standby.url);
      await fleet.goesOn();

      const places = { 'old primary': primary, 'new primary': standby };
      const said = await follow('What was lost with it', places);
      const named = namedIn(primary.site);
      expect(said.at(-1)?.all).toContain(`${named.length} lost.ids`);
      await follow('The old primary comes back', places, { PRIMARY: standby.conninfo });
      await follows(standby, 'async');
      await fleet.goesOn();
      await looksWell(standby, address.url);
      const lost = await fleet.settles();
      console.error(
        `test:ha: an asynchronous failover lost ${lost.length} of ${fleet.accepted.length} accepted jobs; ` +
          `docs/high-availability.md named ${named.length}, with those whose producers got no answer`,
      );
      // Nothing of what the standby had received, and all of it has a name.
      expect(lost.length).toBeGreaterThan(0);
      expect(lost.filter((key) => received.has(key))).toEqual([]);
      expect(lost.filter((key) => !named.includes(key))).toEqual([]);
      await fleet.stopWorkers();
    },
  );

  test('a minor version, one server after the other: nothing is lost', MINUTES, async () => {
    const { primary, standby, address, wire, fleet } = await startPair(false);
    const section = 'A minor version';
    const places = { primary, standby, 'old primary': primary };
    await follow(section, places, {}, 0);
    await follows(primary, 'async');
    await follow(section, places, {}, 1);
    const [stopped] = await follow(section, places, {}, 2);
    const [received] = await follow(section, places, {}, 3);
    const lsn = (text = '') => /[0-9A-F]+\/[0-9A-F]+/.exec(text)?.[0] ?? 'none';
    expect(atLeast(lsn(received?.out), lsn(stopped?.out))).toBe(true);
    address.pointTo(standby.url);
    wire.pointTo(standby.url);
    await follow(section, places, { PRIMARY: standby.conninfo }, 4);
    await follows(standby, 'async');
    await fleet.goesOn();
    await looksWell(standby, address.url);
    expect(await fleet.settles()).toEqual([]);
    await fleet.stopWorkers();
  });

  test('every step of the page was followed', () => {
    const sections = ['A standby', 'After every change', 'The primary is lost', 'A minor version'];
    const lossy = ['What was lost with it', 'The old primary comes back'];
    expect(leftOut([...sections, ...lossy])).toEqual([]);
  });
});

/** The idempotency keys in lost.csv. */
function namedIn({ folder }: Site): string[] {
  const [head = '', ...rows] = readFileSync(join(folder, 'lost.csv'), 'utf8').trim().split('\n');
  const column = head.split(',').indexOf('idempotency_key');
  return rows.map((row) => row.split(',')[column] as string);
}

/** Of two places in the WAL. */
function atLeast(one: string, other: string): boolean {
  const number = (lsn: string) => {
    const [high, low] = lsn.split('/').map((part) => BigInt(`0x${part}`)) as [bigint, bigint];
    return (high << 32n) + low;
  };
  return number(one) >= number(other);
}
