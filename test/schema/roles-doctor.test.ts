/**
 * Rights that were revoked, each alone and together, on two queues, for each role of docs/roles.sql: the doctor names
 * exactly those, and the statements that it prints mend them. It is asked as the owner, who lacks nothing.
 */
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import type { Finding } from '../../packages/holdfast/src/inspect/doctor/doctor.js';
import { judgeRights } from '../../packages/holdfast/src/inspect/doctor/rights.js';
import { listWorkers, type WorkerRow } from '../../packages/holdfast/src/inspect/fleet/workers.js';
import { INBOX, testDatabase } from '../support/database.js';
import { ROLES, type RoleName, testRoles } from '../support/roles.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const { members, role } = testRoles(db, {
  prefix: `holdfast_d${process.pid}`,
  before: async () => void (await db.hf.createQueue('outbox')),
});

/** Somebody of each role is at work, under the name that Holdfast gives its sessions. */
const sessions: pg.Client[] = [];
beforeAll(async () => {
  for (const name of ROLES) {
    const { url: connectionString } = members[name];
    const client = new pg.Client({ connectionString, application_name: 'holdfast' });
    await client.connect();
    sessions.push(client);
  }
});
afterAll(() => Promise.all(sessions.splice(0).map((client) => client.end())));

const wrong = async (workers: readonly WorkerRow[] = []): Promise<Finding[]> =>
  (await judgeRights(db.engine, 'holdfast', workers)).filter(({ level }) => level !== 'ok');

const run = async (statements: string) => void (await db.rows(statements));

/** `UPDATE on inbox`, of `Role x (user y) lacks UPDATE (a), UPDATE (b) on holdfast.inbox; …`. */
function lacking({ text }: Finding): string[] {
  const list = / lacks (.*)\.$/.exec(text)?.[1]?.split('; ') ?? [];
  return list.map((one) => one.replace(/^(\w+).* on .*?(\w+)$/, '$1 on $2')).sort();
}

/** What each of them has of what a slip could take. */
const HELD: Readonly<Record<RoleName, readonly string[]>> = {
  worker: ['UPDATE on inbox', 'INSERT on inbox_archive', 'DELETE on inbox_claims'],
  operator: ['UPDATE on inbox', 'INSERT on inbox_archive', 'SELECT on inbox_claims'],
  viewer: ['SELECT on inbox', 'SELECT on inbox_archive', 'SELECT on inbox_claims'],
  producer: ['INSERT on inbox', 'USAGE on inbox_position_seq'],
};

const ofOutbox = (right: string) => right.replace('inbox', 'outbox');
const CASES = ROLES.flatMap((name) => {
  const held = HELD[name];
  const [all, other] = [held, held.map(ofOutbox)];
  return [
    ...held.map((one) => [one]),
    all,
    ...other.map((one) => [one]),
    other,
    [...all, ...other],
  ].map((revoked) => [name, revoked] as const);
});

test.each(CASES)(
  'of the %s: %j is named, and granted by what is printed',
  async (name, revoked) => {
    for (const one of revoked) {
      const [right, table] = one.split(' on ') as [string, string];
      const kind = table.endsWith('_seq') ? 'SEQUENCE' : 'TABLE';
      await run(`REVOKE ${right} ON ${kind} holdfast.${table} FROM ${role(name)}`);
    }
    const findings = await wrong();
    expect(findings).toHaveLength(1);
    const [found] = findings as [Finding];
    expect(found).toMatchObject({ check: 'rights', level: 'problem' });
    expect(found.text).toContain(`Role ${role(name)} (user ${members[name].user}) lacks `);
    // More than five are counted.
    const [named, rest] = [lacking(found), / and more on (\d+) others/.exec(found.text)?.[1]];
    const left = named.filter((one) => !one.startsWith('and'));
    expect([...revoked]).toEqual(expect.arrayContaining(left));
    expect(left.length + Number(rest ?? 0)).toBe(revoked.length);
    await run(found.fix as string);
    expect(await wrong()).toEqual([]);
  },
);

test('a worker of which no group says what it is for is known by what it reports', async () => {
  const user = `app_${process.pid}`;
  await run(`CREATE ROLE ${user} LOGIN PASSWORD 'secret' IN ROLE ${role('worker')}`);
  const worker = { id: 'w1', status: 'alive', silentMs: 0, metadata: { databaseRole: user } };
  const of = [{ ...worker, handles: { outbox: { t: 1 } } } as unknown as WorkerRow];
  expect(await wrong(of)).toEqual([]);
  await run(`REVOKE ${role('worker')} FROM ${user}`);
  const [found] = await wrong(of);
  expect(found?.text).toContain(`User ${user} (worker w1) lacks USAGE on SCHEMA holdfast`);
  expect(found?.fix).toContain(`GRANT holdfast_worker TO ${user}`);
  await run(`GRANT ${role('worker')} TO ${user}; DROP ROLE ${user}`);
});

test('who works in another schema of the database is not spoken of', async () => {
  const user = `elsewhere_${process.pid}`;
  await run(`CREATE ROLE ${user} LOGIN PASSWORD 'secret'`);
  const url = new URL(db.url);
  [url.username, url.password] = [user, 'secret'];
  const connectionString = url.toString();
  const client = new pg.Client({ connectionString, application_name: 'holdfast keeper' });
  await client.connect();
  expect(await wrong()).toEqual([]);
  await client.end();
  await run(`DROP ROLE ${user}`);
});

test('what a worker was refused is said once, and not where the missing grant is', async () => {
  const denied = [{ said: 'permission denied for table webhook_log', what: 'prune of webhooks' }];
  const of = ['w1', 'w2'].map((id) => {
    const worker = {
      id,
      status: 'alive',
      silentMs: 0,
      handles: {},
      metadata: { load: { denied } },
    };
    return worker as unknown as WorkerRow;
  });
  expect(await wrong(of)).toMatchObject([
    { text: expect.stringContaining('worker w1, w2: permission denied for table webhook_log') },
  ]);
});

test('what a worker was refused before it was granted is over', async () => {
  const denied = [{ said: 'permission denied for table inbox_archive', what: 'settling' }];
  const metadata = { databaseRole: members.worker.user, load: { denied } };
  const worker = { id: 'w1', status: 'alive', silentMs: 0, handles: { inbox: { t: 1 } }, metadata };
  const of = [worker as unknown as WorkerRow];
  expect(await wrong(of)).toEqual([]);
  await run(`REVOKE INSERT ON holdfast.inbox_archive FROM ${role('worker')}`);
  const [found, ...more] = await wrong(of);
  expect(found?.text).toMatch(/; worker w1\) lacks INSERT on holdfast\.inbox_archive\.$/);
  expect(more).toEqual([]);
  await run(found?.fix as string);
});

test('a live worker says as which role it is connected, also after a heartbeat', async () => {
  const { worker, events } = start(members.worker.hf, (w) => w.handle(job('t'), () => undefined), {
    heartbeat: '50ms',
  });
  await until('heartbeats', () => events.filter(({ kind }) => kind === 'heartbeat').length > 1);
  const rows = await listWorkers(db.engine, INBOX.schema, {});
  const { databaseRole } = (rows.find(({ id }) => id === worker.id)?.metadata ?? {}) as {
    databaseRole?: string;
  };
  expect(databaseRole).toBe(members.worker.user);
});
