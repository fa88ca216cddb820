/**
 * Workers that do not agree on who reads what first. Two of them read the same buckets at once: it costs
 * time, and neither runs a job twice nor breaks an order.
 */
import { randomBytes } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { claimKeyed } from '../../packages/holdfast/src/claim/key/claim.js';
import { KeyScanner } from '../../packages/holdfast/src/claim/key/key-scanner.js';
import type { ClaimedJob } from '../../packages/holdfast/src/claim/take.js';
import { claimTime } from '../../packages/holdfast/src/claim/time/claim.js';
import { LAG_MS, Lines } from '../../packages/holdfast/src/claim/time/lines.js';
import { ringOwners } from '../../packages/holdfast/src/fleet/ring.js';
import { job } from '../../packages/holdfast/src/index.js';
import type { Names } from '../../packages/holdfast/src/postgres/names.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { fail } from '../../packages/holdfast/src/settle/fail.js';
import { release } from '../../packages/holdfast/src/settle/release.js';
import { heldOf } from '../support/claiming.js';
import { testDatabase } from '../support/database.js';
import { asAdmin } from '../support/empty-database.js';
import { fleetWorker, Load } from '../support/fleet.js';
import { type Ground, ground } from '../support/ground.js';
import { long, longTest } from '../support/long.js';
import { checkOrder, keepLog, readLog } from '../support/order-log.js';
import { until } from '../support/until.js';

const db = testDatabase();
const RACE_MS = long(1_200, 10_000);
const KEYS = Array.from({ length: 40 }, (_, n) => `order:${n}`);
const MEMBERS = ['a', 'b', 'c', 'd', 'e', 'f'];
const LIMIT = 10;
const ERROR = { error: 'Error: no paper', summary: 'no paper' };
const chance = (share: number) => Math.random() < share;

/** Who holds what, as the claimers know it: told before a job is let go, and after it was claimed. */
class Race {
  readonly broken: string[] = [];
  readonly by = new Map<string, Set<string>>();
  readonly #ordered: boolean;
  readonly #holder = new Map<string, string>();
  readonly #next = new Map<string, number>();

  constructor(ordered: boolean) {
    this.#ordered = ordered;
  }

  claimed(me: string, jobs: readonly ClaimedJob[]): void {
    const begun = new Map<string, number>();
    for (const { id, partitionKey: key, payload } of jobs) {
      const thing = this.#ordered ? key : id;
      const holder = begun.has(thing) ? undefined : this.#holder.get(thing);
      if (holder) this.broken.push(`${me} claims ${thing}, which ${holder} holds`);
      this.#holder.set(thing, me);
      const { n } = JSON.parse(payload);
      const expected = begun.get(thing) ?? this.#next.get(key) ?? 0;
      if (this.#ordered && n !== expected) {
        this.broken.push(`${me} claims ${n} of ${key}, and not ${expected}`);
      }
      begun.set(thing, n + 1);
    }
  }

  letGo(me: string, run: readonly ClaimedJob[], completed: number): void {
    for (const [place, { id, partitionKey: key, payload }] of run.entries()) {
      this.#holder.delete(this.#ordered ? key : id);
      if (place >= completed) continue;
      this.#next.set(key, JSON.parse(payload).n + 1);
      this.by.set(key, (this.by.get(key) ?? new Set()).add(me));
    }
  }
}

type Reader = (now: number) => Promise<readonly ClaimedJob[] | null>;

const terms = (workerId: string, number: number) => ({
  workerId,
  number,
  leaseMs: 60_000,
  finished: [],
  limit: LIMIT,
  versions: { step: 1 },
});

/** Reads by key as a worker does, by a view of the ring that is its own and changes at any time. */
function readKeys(me: string, names: Names): Reader {
  const reader = new KeyScanner(1_000, Math.random);
  let claims = 0;
  const look = () => {
    const owners = ringOwners(MEMBERS.filter((id) => id === me || chance(0.5)));
    reader.own(owners.flatMap((owner, bucket) => (owner === me ? [bucket] : [])));
  };
  look();
  return async (now) => {
    if (chance(0.05)) look();
    const stretches = reader.take(now);
    if (stretches.length === 0) return null;
    const request = { ...terms(me, ++claims), stretches, run: 4, ask: false };
    const claimed = await claimKeyed(db.engine, names, request);
    const end = performance.now();
    reader.record(claimed, LIMIT, end, end - now);
    reader.hint(null, end);
    return claimed.jobs;
  };
}

function readDue(me: string, names: Names): Reader {
  const lines = new Lines({ step: 1 });
  let claims = 0;
  return async (now) => {
    const request = {
      ...terms(me, ++claims),
      lines: lines.take(now, LIMIT, () => true, false),
      ...{ walks: [], keys: 0, lagMs: LAG_MS, ask: false },
    };
    const claimed = await claimTime(db.engine, names, request);
    const end = performance.now();
    lines.record(claimed, LIMIT, end, end - now);
    lines.hint(null, null, end);
    return claimed.jobs;
  };
}

async function claimer(me: string, names: Names, race: Race, ordered: boolean, on: () => boolean) {
  const read = (ordered ? readKeys : readDue)(me, names);
  while (on()) {
    const jobs = (await read(performance.now())) ?? [];
    // Others have their turn; there may be nothing to read yet.
    if (jobs.length === 0) await db.rows('SELECT pg_sleep(0.005)');
    race.claimed(me, jobs);
    const runs = new Map<string, ClaimedJob[]>();
    for (const one of jobs) {
      const thing = ordered ? one.partitionKey : one.id;
      runs.set(thing, [...(runs.get(thing) ?? []), one]);
    }
    for (const run of runs.values()) await settle(me, names, race, run);
  }
}

/** The first ones of a run succeed; the next may fail, and what follows it goes back. */
async function settle(me: string, names: Names, race: Race, run: readonly ClaimedJob[]) {
  const good = chance(0.7) ? run.length : Math.floor(Math.random() * run.length);
  race.letGo(me, run, good);
  const held = run.map((one, n) => ({ ...heldOf(one), after: run[n - 1]?.id ?? null }));
  const [done, bad, rest] = [held.slice(0, good), held[good], held.slice(good + 1)];
  if (done.length > 0) expect(await complete(db.engine, names, me, done)).toHaveLength(good);
  if (bad) {
    const failure = { ...bad, ...ERROR, delayMs: chance(0.5) ? 0 : 20 };
    expect(await fail(db.engine, names, me, [failure])).toHaveLength(1);
  }
  if (rest.length > 0) expect(await release(db.engine, names, me, rest)).toHaveLength(rest.length);
}

test.each([
  ['by time: no job is in two hands', 'race_by_time', false],
  ['by key: no key is in two hands, and its jobs come in order', 'race_by_key', true],
] as const)('six claimers read a queue %s', async (_, queue, ordered) => {
  const names = { schema: 'holdfast', queue };
  await db.hf.createQueue(queue, { ordering: ordered ? 'key' : 'none' });
  const step = job<{ n: number }>('step', { queue, maxAttempts: 1_000 });
  const race = new Race(ordered);
  const end = Date.now() + RACE_MS;
  let left = 1;
  const on = () => race.broken.length === 0 && (Date.now() < end || left > 0);
  const working = Promise.all(MEMBERS.map((id) => claimer(id, names, race, ordered, on)));
  let rounds = 0;
  while (Date.now() < end && race.broken.length === 0) {
    await db.hf.enqueueMany(KEYS.map((key) => step.item({ n: rounds }, { partitionKey: key })));
    rounds++;
    await until(
      'there is room',
      async () => (await waiting(queue)) < 200 || race.broken.length > 0,
    );
  }
  await until('the queue is empty', async () => {
    left = await waiting(queue);
    return left === 0 || race.broken.length > 0;
  });
  await working;
  expect(race.broken).toEqual([]);
  expect(
    await db.rows(
      `SELECT count(*)::int, count(DISTINCT id)::int AS jobs FROM holdfast.${queue}_archive`,
    ),
  ).toEqual([{ count: rounds * KEYS.length, jobs: rounds * KEYS.length }]);
  // They did meet, or there was nothing to go wrong.
  const shared = [...race.by.values()].filter((workers) => workers.size > 1);
  expect(shared.length).toBeGreaterThan(KEYS.length / 2);
});

async function waiting(queue: string): Promise<number> {
  const [row] = await db.rows<{ n: number }>(`SELECT count(*)::int AS n FROM holdfast.${queue}`);
  return row?.n as number;
}

/**
 * A role for a fleet that sees only its own workers: whatever they read of the registry, the database
 * leaves the others out, and each fleet takes itself for the whole.
 */
async function blindRole(on: Ground): Promise<{ name: string; url: string }> {
  const name = `fleet_${randomBytes(4).toString('hex')}`;
  await on.pool.query(`CREATE ROLE ${name} LOGIN PASSWORD 'secret'`);
  onTestFinished(async () => {
    await on.pool.query(`DROP OWNED BY ${name}`);
    await asAdmin((client) => client.query(`DROP ROLE ${name}`));
  });
  for (const schema of ['holdfast', 'public']) {
    await on.pool.query(`
      GRANT USAGE ON SCHEMA ${schema} TO ${name};
      GRANT ALL ON ALL TABLES IN SCHEMA ${schema} TO ${name};
      GRANT ALL ON ALL SEQUENCES IN SCHEMA ${schema} TO ${name}`);
  }
  const url = new URL(on.url);
  url.username = name;
  url.password = 'secret';
  return { name, url: url.toString() };
}

longTest(
  'two fleets that do not know of each other share a queue: every key in order, every job once',
  async () => {
    const two = await ground();
    await keepLog(two);
    await two.hf.configureQueue('inbox', { ordering: 'key' });
    await two.pool.query(`
    ALTER TABLE holdfast.workers ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON holdfast.workers
      USING (metadata ->> 'fleet' = current_user) WITH CHECK (true)`);
    const roles = [await blindRole(two), await blindRole(two)];
    const load = new Load(two, 200);
    const options = { heartbeat: '1s', poll: '100ms', concurrency: 5 } as const;
    await Promise.all(
      [...roles, ...roles].map(({ name, url }) =>
        fleetWorker(url, { options: { ...options, metadata: { fleet: name } } }),
      ),
    );
    await until('both fleets have done jobs of most keys', async () => {
      const rows = await two.rows(
        `SELECT a.partition_key FROM holdfast.inbox_archive AS a
       JOIN holdfast.workers AS w ON w.id = a.claimed_by
       GROUP BY a.partition_key HAVING count(DISTINCT w.metadata ->> 'fleet') = 2`,
      );
      return rows.length > load.keys.length / 2;
    });
    const total = await load.finish();

    const log = await readLog(two);
    const checked = checkOrder(log, new Set());
    expect(checked.broken).toEqual([]);
    expect([...checked.ended.values()]).toEqual(load.keys.map(() => load.rounds));
    expect(checked.repeats).toBe(log.filter(({ kind }) => kind === 'failed').length);
    const [archive] = await two.rows(
      `SELECT count(*)::int, count(DISTINCT claimed_by)::int AS workers FROM holdfast.inbox_archive`,
    );
    expect(archive).toEqual({ count: total, workers: 4 });
  },
  120_000,
);
