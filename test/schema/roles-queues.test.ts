/** Roles and queues: who holds the first queue holds the next one, and a grant that is missing is named. */
import { afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import type { Finding } from '../../packages/holdfast/src/inspect/doctor/doctor.js';
import { judgeRights } from '../../packages/holdfast/src/inspect/doctor/rights.js';
import { collectMetrics } from '../../packages/holdfast/src/metrics/index.js';
import { engineExecutor } from '../../packages/holdfast/src/postgres/queryable.js';
import { call } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { recordingLogger } from '../support/logger.js';
import { readScrape } from '../support/prometheus.js';
import { testRoles } from '../support/roles.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const work = job<{ n?: number }>('work');
const { members, sql, role } = testRoles(db, {
  prefix: `holdfast_${process.pid}`,
  // One is there before the roles are, the others are made after them.
  before: async () => void (await db.hf.createQueue('older')),
});

describe('a queue beside the first', () => {
  /** Everything that somebody other than the owner may do with a queue, without its name. */
  const heldOn = (queue: string) =>
    db.rows(
      `SELECT replace(format('%s %s', o.name, a.right), $1, 'inbox') AS held FROM (
        SELECT c.relname::text AS name, c.relacl AS acl, c.relowner AS owner FROM pg_class AS c
        WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind IN ('r', 'S')
        UNION ALL
        SELECT concat(c.relname, '.', t.attname), t.attacl, c.relowner FROM pg_class AS c
        JOIN pg_attribute AS t ON t.attrelid = c.oid WHERE c.relnamespace = 'holdfast'::regnamespace
        UNION ALL
        SELECT p.proname, p.proacl, p.proowner FROM pg_proc AS p
        WHERE p.pronamespace = 'holdfast'::regnamespace
      ) AS o CROSS JOIN LATERAL (SELECT format('%s to %s', x.privilege_type, x.grantee::regrole) AS right
        FROM aclexplode(o.acl) AS x WHERE x.grantee <> o.owner) AS a
      WHERE o.name ~ ('^' || $1 || '(_(archive|claims|idempotency|unique|effects|position_seq|enqueue|enqueue_unique|count_waiting|claim_limited|allowance|allow|held|rate_keys|set_limit|turns|room|wake|fill|take_key))?(\\.|$)')
      ORDER BY 1`,
      [queue],
    );

  beforeAll(async () => {
    await db.hf.createQueue('older_still');
    await db.hf.createQueue('outbox', { ordering: 'key' });
  });

  test.each(['older', 'older_still', 'outbox'])(
    '%s is held by those who hold inbox',
    async (queue) => {
      const wanted = await heldOn('inbox');
      expect(wanted.length).toBeGreaterThan(40);
      expect(await heldOn(queue)).toEqual(wanted);
    },
  );

  test('is filled, worked off and seen by its roles', async () => {
    const parcel = job('parcel', { queue: 'outbox' });
    await members.producer.hf.enqueue(parcel, {}, { idempotencyKey: 'p' });
    expect((await members.viewer.hf.queues()).map(({ queue }) => queue)).toContain('outbox');
    const { worker } = start(members.worker.hf, (w) => w.handle(parcel, () => undefined));
    await until('it is done', () => worker.stats.completed === 1);
    for (const role of ['worker', 'viewer', 'operator'] as const) {
      const { queues, missingGrants } = await members[role].hf.gauges();
      expect(queues.map(({ queue }) => queue)).toContain('outbox');
      expect(missingGrants).toEqual([]);
    }
  });

  test('rights on a function that were taken from everybody stay taken, and grant options stay', async () => {
    const user = members.viewer.user;
    await db.rows('REVOKE EXECUTE ON FUNCTION holdfast.inbox_enqueue FROM PUBLIC');
    await db.rows(`GRANT EXECUTE ON FUNCTION holdfast.inbox_enqueue TO ${role('producer')};
      GRANT DELETE ON holdfast.inbox_effects TO ${user} WITH GRANT OPTION`);
    await db.hf.createQueue('guarded');
    const may = (role: string, option = '') =>
      db.rows(`SELECT has_function_privilege('${role}', p.oid, 'EXECUTE') AS calls,
        has_table_privilege('${user}', 'holdfast.guarded_effects', 'DELETE${option}') AS deletes
        FROM pg_proc AS p WHERE p.proname = 'guarded_enqueue'`);
    expect(await may(role('viewer'), ' WITH GRANT OPTION')).toEqual([
      { calls: false, deletes: true },
    ]);
    expect(await may(role('producer'))).toMatchObject([{ calls: true }]);
    await db.rows(`GRANT EXECUTE ON FUNCTION holdfast.inbox_enqueue TO PUBLIC;
      REVOKE ALL ON holdfast.inbox_effects FROM ${user} CASCADE`);
  });
});

describe('a missing grant', () => {
  beforeEach(
    async () => void (await db.rows(`REVOKE ALL ON holdfast.outbox FROM ${role('viewer')}`)),
  );
  afterEach(async () => void (await db.rows(sql)));
  const grant = () => `GRANT SELECT ON holdfast.outbox TO ${members.viewer.user};`;

  test('is named in the scrape and in the log; the other queues are there', async () => {
    const logger = recordingLogger();
    const hf = holdfast({ connectionString: members.viewer.url, logger });
    onTestFinished(() => hf.close());
    const metrics = collectMetrics(hf, { freshFor: 0 });
    await db.hf.enqueue(work, {});
    for (let n = 0; n < 2; n++) {
      const scrape = readScrape(await metrics.text());
      expect(scrape.value('holdfast_database_up')).toBe(1);
      expect(scrape.value('holdfast_grant_missing', { table: 'outbox' })).toBe(1);
      expect(scrape.value('holdfast_jobs_pending', { queue: 'inbox' })).toBe(1);
      expect(scrape.value('holdfast_jobs_pending', { queue: 'outbox' })).toBeUndefined();
    }
    const { user } = members.viewer;
    expect(logger.lines.map(({ facts }) => facts)).toEqual([{ user, grants: [grant()] }]);
  });

  test('is named by the doctor, and what it prints mends it', async () => {
    const { hf } = members.viewer;
    const rights = async () => (await hf.doctor()).find(({ check }) => check === 'rights');
    // Its group lacks it, so all who are of that group do.
    const fix = `GRANT SELECT ON holdfast.outbox TO ${role('viewer')};`;
    const text = expect.stringMatching(/^Role \S+ \(user .*\) lacks SELECT on holdfast.outbox\.$/);
    expect(await rights()).toMatchObject({ level: 'problem', text, fix });
    await db.rows(fix);
    expect(await rights()).toMatchObject({ level: 'ok' });
  });

  test('is named by a command that is refused', async () => {
    const ran = await call(['status', '--url', members.viewer.url]);
    expect(ran.code).toBe(1);
    expect(ran.err).toContain(grant());
  });
});

test.each([
  ['producer', 'inbox_enqueue_unique'],
  ['producer', 'inbox_count_waiting'],
  ['worker', 'inbox_claim'],
  ['worker', 'inbox_allow'],
  ['worker', 'inbox_rate_keys'],
  ['viewer', 'inbox_held'],
  ['worker', 'inbox_turns'],
  ['operator', 'inbox_set_limit'],
] as const)('the doctor misses the right of the %s to call %s', async (name, called) => {
  const { user, pool } = members[name];
  const rights = () => judgeRights(engineExecutor(pool, { prepare: false }), 'holdfast');
  const [was] = await db.rows<{ everybody: boolean }>(
    `SELECT has_function_privilege('public', p.oid, 'EXECUTE') AS everybody FROM pg_proc AS p WHERE p.proname = $1`,
    [called],
  );
  const wrong = async () => (await rights()).filter(({ level }) => level !== 'ok');
  expect(await wrong()).toEqual([]);
  await db.rows(`REVOKE EXECUTE ON FUNCTION holdfast.${called} FROM PUBLIC, ${role(name)}`);
  const found = (await wrong()).find(({ text }) => text.includes(user)) as Finding;
  expect(found).toMatchObject({ level: 'problem' });
  expect(found.text).toContain(`lacks EXECUTE on FUNCTION holdfast.${called}(`);
  for (const { fix } of await wrong()) await db.rows(fix as string);
  expect(await wrong()).toEqual([]);
  if (was?.everybody) await db.rows(`GRANT EXECUTE ON FUNCTION holdfast.${called} TO PUBLIC`);
  await db.rows(sql);
});

test.each(['worker', 'viewer', 'operator'] as const)(
  'the doctor is content with the %s',
  async (role) => {
    await db.rows('DELETE FROM holdfast.inbox; DELETE FROM holdfast.outbox');
    const findings = await members[role].hf.doctor();
    expect(findings.filter(({ level }) => level === 'problem')).toEqual([]);
    expect(findings.find(({ check }) => check === 'rights')).toMatchObject({ level: 'ok' });
  },
);

test('the producer enqueues from the command line, and is told what it may not', async () => {
  const { url, user } = members.producer;
  const ran = await call(['enqueue', 'work', '{"n": 1}', '--queue', 'outbox', '--url', url]);
  expect(ran).toMatchObject({ code: 0, err: '' });
  const refused = await call(['status', '--url', url]);
  expect(refused.err).toMatch(new RegExp(`permission denied.*GRANT holdfast_viewer TO ${user};`));
});

test('the roles work where nobody may call a function by default', async () => {
  const all = await db.rows<{ f: string }>(`SELECT p.oid::regprocedure::text AS f FROM pg_proc AS p
    WHERE p.pronamespace = 'holdfast'::regnamespace AND has_function_privilege('public', p.oid, 'EXECUTE')`);
  for (const { f } of all) await db.rows(`REVOKE EXECUTE ON FUNCTION ${f} FROM PUBLIC`);
  onTestFinished(async () => {
    for (const { f } of all) await db.rows(`GRANT EXECUTE ON FUNCTION ${f} TO PUBLIC`);
  });
  await members.producer.hf.enqueue(work, {});
  await members.producer.pool.query(
    `SELECT holdfast.inbox_enqueue('work', '{}', idempotency_key => 'hard')`,
  );
  const { worker } = start(members.worker.hf, (w) => w.handle(work, () => undefined));
  await until('both are done', () => worker.stats.completed >= 2);
  await members.operator.hf.pause();
  await members.operator.hf.resume();
});
