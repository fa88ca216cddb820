/**
 * At most so many jobs of a key and of a group at once, in a fleet of real processes that join, are killed and frozen,
 * and of which two halves do not know of each other, so that all buckets have two owners.
 *
 * Handlers are the witnesses: when an attempt began and ended stands in the transaction that completes its job. What a
 * frozen process does after others took its jobs over completes nothing, and is no part of the promise.
 */
import { randomBytes } from 'node:crypto';
import { expect, onTestFinished } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { QUICK } from '../support/child.js';
import { asAdmin } from '../support/empty-database.js';
import { type FleetWorker, fleetWorker } from '../support/fleet.js';
import { type Ground, ground } from '../support/ground.js';
import { long, longTest } from '../support/long.js';
import { until } from '../support/until.js';

const PER_KEY = 2;
const PER_GROUP = 5;
const WORKERS = long(4, 8);
/** Each kills one worker, freezes another, and waits until the fleet has noticed. */
const ROUNDS = long(1, 100);
const BACKLOG = 150;
const TENANTS = 4;
const USERS = 5;

interface Task {
  readonly ms: number;
  readonly group?: string;
}
const witnessed = job<Task>('witnessed', { maxAttempts: 1_000 });

/** How many attempts of a key, or a group, overlapped with the begin of one of them. */
const MOST = (name: string) => `
SELECT coalesce(max(n), 0)::int AS most FROM (
  SELECT count(*) AS n FROM witness AS w
  JOIN witness AS o ON o.${name} = w.${name} AND (o.grp IS NOT DISTINCT FROM w.grp)
    AND o.began <= w.began AND o.ended > w.began
  GROUP BY w.job) AS t`;

const TOO_MANY = `
SELECT group_key, partition_key, count(*)::int AS held FROM holdfast.inbox WHERE status = 'processing'
GROUP BY 1, 2 HAVING count(*) > ${PER_KEY}
UNION ALL
SELECT group_key, NULL, count(*)::int FROM holdfast.inbox WHERE status = 'processing' AND group_key IS NOT NULL
GROUP BY 1 HAVING count(*) > ${PER_GROUP}`;

/** Roles whose workers see only those of the same role: each takes its half for the whole fleet. */
async function blindRole(on: Ground): Promise<{ name: string; url: string }> {
  const name = `half_${randomBytes(4).toString('hex')}`;
  await on.pool.query(`CREATE ROLE ${name} LOGIN PASSWORD 'secret'`);
  onTestFinished(async () => {
    await on.pool.query(`DROP OWNED BY ${name}`);
    await asAdmin((client) => client.query(`DROP ROLE ${name}`));
  });
  for (const schema of ['holdfast', 'public'])
    await on.pool.query(`
      GRANT USAGE ON SCHEMA ${schema} TO ${name};
      GRANT ALL ON ALL TABLES IN SCHEMA ${schema} TO ${name};
      GRANT ALL ON ALL SEQUENCES IN SCHEMA ${schema} TO ${name}`);
  const url = new URL(on.url);
  url.username = name;
  url.password = 'secret';
  return { name, url: url.toString() };
}

/** Jobs of all users, some of them without a tenant, until it is stopped; and what a snapshot shows meanwhile. */
class Load {
  readonly broken: object[] = [];
  enqueued = 0;
  #on = true;
  readonly #done: Promise<unknown>;
  readonly #db: Ground;

  constructor(db: Ground) {
    this.#db = db;
    this.#done = Promise.all([this.#produce(), this.#observe()]);
    this.#done.catch(() => undefined);
  }

  async #produce(): Promise<void> {
    for (let n = 0; this.#on; n++) {
      const items = Array.from({ length: TENANTS * USERS }, (_, place) => {
        const tenant = place % TENANTS;
        const group = tenant === 0 ? undefined : `tenant:${tenant}`;
        const payload = { ms: (place + n) % 50, ...(group && { group }) };
        const partitionKey = `user:${place % USERS}`;
        return witnessed.item(payload, { partitionKey, ...(group && { group }) });
      });
      await this.#db.hf.enqueueMany(items);
      this.enqueued += items.length;
      await until('the backlog is short', async () => !this.#on || (await this.left()) < BACKLOG);
    }
  }

  async #observe(): Promise<void> {
    while (this.#on) {
      this.broken.push(...(await this.#db.rows(TOO_MANY)));
      await new Promise((resolve) => setTimeout(resolve, 15));
    }
  }

  async left(): Promise<number> {
    const rows = await this.#db.rows<{ n: number }>(
      'SELECT count(*)::int AS n FROM holdfast.inbox',
    );
    return rows[0]?.n as number;
  }

  async finish(): Promise<void> {
    await until('the queue is empty', async () => {
      this.#on = false;
      await this.#done;
      return (await this.left()) === 0;
    });
  }
}

const isDead = (db: Ground, { workerId }: FleetWorker) =>
  until(`${workerId} is declared dead`, async () => {
    const text = 'SELECT status FROM holdfast.workers WHERE id = $1';
    return (await db.rows<{ status: string }>(text, [workerId]))[0]?.status === 'dead';
  });

const completedSince = async (db: Ground, count: number) => {
  const before = await db.rows('SELECT FROM witness');
  await until(
    'jobs are done',
    async () => (await db.rows('SELECT FROM witness')).length >= before.length + count,
  );
};

longTest(
  'a fleet that is killed and frozen, in halves that do not know of each other, never runs too many of a key',
  async () => {
    const db = await ground();
    await db.pool.query(
      `CREATE TABLE witness (job uuid, key text, grp text, began timestamptz, ended timestamptz);
     CREATE INDEX ON witness (key, began)`,
    );
    await db.hf.configureQueue('inbox', { perKey: PER_KEY, perGroup: PER_GROUP, fair: true });
    await db.pool.query(`
    ALTER TABLE holdfast.workers ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON holdfast.workers
      USING (metadata ->> 'fleet' = current_user) WITH CHECK (true)`);
    const halves = [await blindRole(db), await blindRole(db)];
    const join = (n: number) => {
      const { name, url } = halves[n % 2] as (typeof halves)[number];
      const options = {
        ...QUICK,
        poll: '100ms',
        concurrency: 6,
        metadata: { fleet: name },
      } as const;
      return fleetWorker(url, { options });
    };
    const load = new Load(db);
    let fleet = await Promise.all(Array.from({ length: WORKERS }, (_, n) => join(n)));
    await completedSince(db, 50);
    for (let round = 0; round < ROUNDS; round++) {
      // The first two are of different halves.
      const [killed, frozen, ...others] = fleet as [FleetWorker, FleetWorker, ...FleetWorker[]];
      killed.signal('SIGKILL');
      frozen.signal('SIGSTOP');
      const joined = await Promise.all([join(0), join(1)]);
      await Promise.all([isDead(db, killed), isDead(db, frozen)]);
      await completedSince(db, 20);
      frozen.signal('SIGCONT');
      await frozen.hears('reregistered');
      // Those that were frozen leave as well: the next round takes others.
      frozen.signal('SIGKILL');
      fleet = [...others, ...joined];
    }
    await load.finish();

    expect(load.broken).toEqual([]);
    expect(await db.rows(MOST('key'))).toEqual([{ most: PER_KEY }]);
    const [groups] = await db.rows<{ most: number }>(MOST('grp'));
    expect(groups?.most).toBeLessThanOrEqual(PER_GROUP);
    // Every job counts once, whatever happened to its workers.
    const [jobs] = await db.rows(
      'SELECT count(*)::int AS n, count(DISTINCT job)::int AS jobs FROM witness',
    );
    expect(jobs).toEqual({ n: load.enqueued, jobs: load.enqueued });

    // Nothing leaked: the limit can be reached in full.
    await db.rows('TRUNCATE witness');
    const group = 'tenant:1';
    await db.hf.enqueueMany(
      Array.from({ length: 60 }, (_, n) =>
        witnessed.item({ ms: 50, group }, { partitionKey: `user:${n % USERS}`, group }),
      ),
    );
    await until('all are done', async () => (await db.rows('SELECT FROM witness')).length === 60);
    expect(await db.rows(MOST('grp'))).toEqual([{ most: PER_GROUP }]);
    expect(await db.rows(MOST('key'))).toEqual([{ most: PER_KEY }]);
  },
  long(120_000, 1_800_000),
);
