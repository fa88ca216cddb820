/** Schedules: what is refused, declared sets, one job a tick whoever writes it, what is caught up, overlaps. */
import pg from 'pg';
import { beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { engineOptions } from '../../packages/holdfast/src/postgres/connect/pool.js';
import { engineExecutor } from '../../packages/holdfast/src/postgres/queryable.js';
import { load } from '../../packages/holdfast/src/postgres/statement.js';
import {
  readDue,
  readDueSchedules,
  writeDueTicks,
  writeTicks,
} from '../../packages/holdfast/src/schedule/tick.js';
import { INBOX, testDatabase } from '../support/database.js';
import { paramsOf } from '../support/plans.js';
import { until } from '../support/until.js';

const db = testDatabase();
const report = job<{ to: string }>('report');
const ordered = job<{ to: string }>('ordered_report', { queue: 'ordered' });
const daily = { cron: '0 9 * * *', job: report, payload: { to: 'ops' } } as const;
/** What a JavaScript caller may pass. */
const any = (options: object) => options as never;

beforeEach(async () => {
  await db.hf.createQueue('ordered', { ordering: 'key' });
  for (const table of ['schedules', 'inbox', 'inbox_idempotency', 'ordered', 'ordered_idempotency'])
    await db.rows(`DELETE FROM holdfast.${table}`);
});

/** One look and what follows from it, as a worker does it. */
async function tick(queue = 'inbox', engine = db.engine) {
  const due = await readDue(engine, INBOX, [queue], 500);
  const ticks = due.queues.get(queue) ?? [];
  return ticks.length === 0 ? [] : writeTicks(engine, { ...INBOX, queue }, ticks);
}

/** The last tick of `hourly` was half an hour ago. */
const LAST = Math.floor(Date.now() / 60_000) * 60_000 - 30 * 60_000;
const hourly = { ...daily, cron: `${new Date(LAST).getUTCMinutes()} * * * *` };

/** The next instant of a schedule is set back by so many ticks, as if nobody had been there. */
async function setBack(name: string, ticks: number, everyMs = 3_600_000, last = LAST) {
  const at = new Date(last - (ticks - 1) * everyMs).toISOString();
  const text = 'UPDATE holdfast.schedules SET next_instant = $2, next_at = $2 WHERE name = $1';
  await db.rows(text, [name, at]);
}

async function instants(queue = 'inbox'): Promise<string[]> {
  const rows = await db.rows<{ at: string }>(
    `SELECT headers ->> 'holdfast_scheduled_at' AS at FROM holdfast.${queue} ORDER BY position`,
  );
  return rows.map(({ at }) => at);
}

describe('what cannot be meant is refused', () => {
  const typed = job<{ to: string }>('typed', {
    schema: {
      '~standard': {
        ...{ version: 1, vendor: 'test' },
        validate: (value: unknown) =>
          typeof (value as { to?: unknown }).to === 'string'
            ? { value: value as { to: string } }
            : { issues: [{ message: 'must be a string', path: ['to'] }] },
      },
    },
  });
  test.each([
    ['a cron that never fires', { cron: '0 0 30 2 *' }, /"0 0 30 2 \*" never fires again/],
    // croner overflows the stack with it.
    ['another that never fires', { cron: '0 0 31 2,4,6,9,11 *' }, /never fires/],
    ['a cron that cannot be read', { cron: '61 * * * *' }, /"61 \* \* \* \*" cannot be read.*61/],
    ['a date in place of a cron', { cron: '2030-01-01T00:00:00' }, /five fields/],
    ['an unknown zone', { timezone: 'Europe/Lisboa' }, /no timezone "Europe\/Lisboa"/],
    ['a zone that is null', { timezone: null }, /no timezone null/],
    ['an interval of 0', { cron: undefined, every: 0 }, /every is out of range, got 0/],
    ['both', { every: '5m' }, /cron or every, not both/],
    ['neither', { cron: undefined }, /give cron or every/],
    [
      'a zone of an interval',
      { cron: undefined, every: '5m', timezone: 'UTC' },
      /timezone belongs/,
    ],
    ['a word that is none', { catchUp: 'some' }, /catchUp must be one of/],
    ['an option that is none', { timeZone: 'UTC' }, /Did you mean "timezone"/],
    ['a jitter beyond the interval', { cron: undefined, every: '5m', jitter: '6m' }, /jitter/],
    [
      'a jitter beyond the time between two ticks',
      { cron: '*/5 * * * *', jitter: '6m' },
      /jitter is 360000 ms, and cron "\*\/5 \* \* \* \*" fires every 300000 ms/,
    ],
    ['an order that its queue lacks', { overlap: 'queue' }, /"inbox" keeps no order/],
    ['a group that its queue lacks', { group: 'tenant:7' }, /"inbox" has no groups/],
    ['a group that is no text', { group: 7 }, /group.*o schedule was made/],
    [
      'a key that its rate cannot have',
      {
        job: job<{ to: string }>('paced', {
          limit: { rate: { limit: 1, per: '1s', key: () => '' } },
        }),
      },
      /limit\.rate\.key.*No schedule was made/,
    ],
    ['a queue that is not there', { job: job('x', { queue: 'nowhere' }) }, /no queue "nowhere"/],
    [
      'what does not fit the schema',
      { job: typed, payload: any({ to: 1 }) },
      /to.*must be a string/,
    ],
  ])('%s', async (_, wrong, message) => {
    await expect(db.hf.schedule('a', any({ ...daily, ...wrong }))).rejects.toThrow(message);
    expect(await db.rows('SELECT name FROM holdfast.schedules')).toEqual([]);
  });

  test('a name that is none, and a schedule that is not there', async () => {
    await expect(db.hf.schedule('a b', daily)).rejects.toMatchObject({ code: 'NAME_INVALID' });
    const [cron, definition] = ['* * * * *' as never, job('x') as never];
    await expect(db.hf.schedule(definition, cron)).rejects.toMatchObject({ code: 'NAME_INVALID' });
    await expect(db.hf.schedule('a', cron)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(
        /must be an object, not "\* \* \* \* \*"\. No schedule was made/,
      ),
    });
    for (const verb of ['pause', 'resume', 'runNow', 'delete', 'get'] as const)
      await expect(db.hf.schedules[verb]('x')).rejects.toMatchObject({ code: 'SCHEDULE_UNKNOWN' });
  });
});

describe('declared sets', () => {
  test('shrink and grow in one transaction, and keep instants, pauses and what others made', async () => {
    const { schedules } = db.hf;
    const set = { a: daily, b: { ...daily, timezone: 'Europe/Lisbon' }, c: daily };
    await db.hf.schedule('tenant:1', daily);
    expect(await schedules.declare('billing', set)).toEqual({
      ...{ made: ['a', 'b', 'c'], kept: [], removed: [] },
    });
    await schedules.pause('a');
    await setBack('b', 3);
    const before = await schedules.get('b');
    const put = await schedules.declare('billing', { a: daily, b: set.b, d: daily });
    expect(put).toEqual({ made: ['d'], kept: ['a', 'b'], removed: ['c'] });
    expect((await schedules.get('a')).paused).toBe(true);
    // A deploy after an outage must not lose what the outage has missed.
    expect((await schedules.get('b')).nextAt).toEqual(before.nextAt);
    await schedules.declare('billing', { b: { ...set.b, cron: '0 8 * * *' } });
    expect((await schedules.get('b')).nextAt?.getTime()).toBeGreaterThan(Date.now());
    const { schedules: left } = await schedules.list();
    expect(left.map(({ name, declaredBy }) => [name, declaredBy])).toEqual([
      ['b', 'billing'],
      ['tenant:1', null],
    ]);
  });

  test('that were forgotten, or are no object, delete nothing', async () => {
    await db.hf.schedules.declare('billing', { a: daily });
    for (const none of [undefined, null, [daily], new Map([['b', daily]]), Promise.resolve({})])
      await expect(db.hf.schedules.declare('billing', none as never)).rejects.toMatchObject({
        code: 'OPTION_INVALID',
        message: expect.stringMatching(
          /must be an object of schedules by name.*Nothing was changed/,
        ),
      });
    expect((await db.hf.schedules.list()).schedules.map(({ name }) => name)).toEqual(['a']);
    expect(await db.hf.schedules.declare('billing', {})).toMatchObject({ removed: ['a'] });
  });

  test('take no name that stands for a schedule of somebody else', async () => {
    const { schedules } = db.hf;
    await db.hf.schedule('mine', daily);
    await schedules.declare('billing', { theirs: daily });
    const taken = { code: 'SCHEDULE_TAKEN' };
    await expect(schedules.declare('billing', { mine: daily })).rejects.toMatchObject(taken);
    await expect(schedules.declare('mail', { theirs: daily })).rejects.toMatchObject(taken);
    await expect(db.hf.schedule('theirs', daily)).rejects.toMatchObject(taken);
    // Its own are not among those that it names.
    const named = 'that were not made by "billing": "mine". Nothing was changed';
    const call = schedules.declare('billing', { theirs: daily, mine: daily });
    await expect(call).rejects.toThrow(named);
    expect((await schedules.list()).schedules.map(({ name }) => name)).toEqual(['mine', 'theirs']);
  });

  test("live and die with the caller's transaction", async () => {
    const tx = await db.pool.connect();
    await tx.query('BEGIN');
    await db.hf.schedule('a', { ...daily, tx });
    await db.hf.schedules.runNow('a', { tx });
    await db.hf.schedules.pause('a', { tx });
    await tx.query('ROLLBACK');
    tx.release();
    expect(await db.rows('SELECT name FROM holdfast.schedules')).toEqual([]);
    expect(await instants()).toEqual([]);
  });

  test('are found by page, prefix, queue and declarer', async () => {
    await Promise.all(['t:1', 't:2', 't:3', 'u:1'].map((name) => db.hf.schedule(name, daily)));
    const names = async (request: object) => {
      const page = await db.hf.schedules.list(request);
      return [page.schedules.map(({ name }) => name), page.next];
    };
    expect(await names({ prefix: 't:', limit: 2 })).toEqual([['t:1', 't:2'], 't:2']);
    expect(await names({ prefix: 't:', limit: 2, after: 't:2' })).toEqual([['t:3'], null]);
    expect(await names({ queue: 'ordered' })).toEqual([[], null]);
    expect(await names({ declaredBy: 'nobody' })).toEqual([[], null]);
  });
});

describe('a fleet that was down for three ticks', () => {
  test.each([
    ['none', 0, 3],
    ['last', 1, 2],
    ['all', 3, 0],
  ] as const)('catches up %s of them', async (catchUp, jobs, missed) => {
    await db.hf.schedule('a', { ...hourly, catchUp });
    await setBack('a', 3);
    await tick();
    const found = await instants();
    expect(found).toHaveLength(jobs);
    const now = await db.hf.schedules.get('a');
    expect(now).toMatchObject({ ticks: jobs, missed, skipped: 0 });
    expect(now.nextAt?.getTime()).toBeGreaterThan(Date.now());
    if (jobs > 0) expect(now.lastInstant?.toISOString()).toBe(found.at(-1));
    expect(await tick()).toEqual([]);
  });

  test('and a pause is no outage: nothing of it is caught up', async () => {
    await db.hf.schedule('a', { ...hourly, catchUp: 'all' });
    await db.hf.schedules.pause('a');
    await setBack('a', 3);
    expect(await tick()).toEqual([]);
    await db.hf.schedules.resume('a');
    expect(await tick()).toEqual([]);
    expect((await db.hf.schedules.get('a')).nextAt?.getTime()).toBeGreaterThan(Date.now());
  });
});

describe('a tick while the job of the one before is not over', () => {
  const catchUp = 'all';

  test('skip: nothing is written until it is', async () => {
    await db.hf.schedule('a', { ...hourly, catchUp, overlap: 'skip' });
    await setBack('a', 3);
    expect(await tick()).toMatchObject([{ written: 1, skipped: 2 }]);
    await setBack('a', 2);
    expect(await tick()).toMatchObject([{ written: 0, skipped: 2 }]);
    // A human is told which job it is.
    const [last] = await db.rows<{ id: string }>('SELECT id FROM holdfast.inbox');
    expect(await db.hf.schedules.runNow('a')).toEqual({ id: last?.id, skipped: true });
    await db.hf.cancel([last?.id as string]);
    await setBack('a', 1);
    expect(await tick()).toMatchObject([{ written: 1, skipped: 0 }]);
  });

  test('skip: of two who run it at once, the second is told of the job of the first', async () => {
    await db.hf.schedule('a', { ...hourly, overlap: 'skip' });
    const client = await db.pool.connect();
    try {
      await client.query('BEGIN');
      const first = await db.hf.schedules.runNow('a', { tx: client });
      const second = db.hf.schedules.runNow('a');
      const waits = `SELECT FROM pg_locks AS l JOIN pg_stat_activity AS s USING (pid)
        WHERE NOT l.granted AND s.datname = current_database()`;
      await until('the second waits', async () => (await db.rows(waits)).length > 0);
      await client.query('COMMIT');
      expect(first.skipped).toBe(false);
      expect(await second).toEqual({ id: first.id, skipped: true });
    } finally {
      client.release();
    }
    expect(await db.rows('SELECT id FROM holdfast.inbox')).toHaveLength(1);
  });

  test('queue: they share a key, so that a queue with order runs one after the other', async () => {
    await db.hf.schedule('a', { ...hourly, job: ordered, catchUp, overlap: 'queue' });
    await setBack('a', 3);
    await tick('ordered');
    const keys = await db.rows('SELECT DISTINCT partition_key AS key FROM holdfast.ordered');
    expect(keys).toEqual([{ key: 'schedule:a' }]);
    expect(await instants('ordered')).toHaveLength(3);
    expect(await instants('ordered')).toEqual((await instants('ordered')).toSorted());
  });

  test('allow: each is a job', async () => {
    await db.hf.schedule('a', { ...hourly, catchUp });
    await setBack('a', 3);
    expect(await tick()).toMatchObject([{ written: 3, skipped: 0 }]);
  });
});

describe('one job a tick', () => {
  test('whoever writes it: ten race through 3,000 ticks while their connections are cut', async () => {
    const names = Array.from({ length: 10 }, (_, n) => `s${n}`);
    for (const name of names) {
      await db.hf.schedule(name, {
        ...daily,
        cron: undefined as never,
        every: '1m',
        catchUp: 'all',
      });
      await setBack(name, 300, 60_000, Math.floor(Date.now() / 60_000) * 60_000);
    }
    const pool = new pg.Pool({ connectionString: db.url, options: engineOptions(), max: 10 });
    pool.on('error', () => undefined);
    const engine = engineExecutor(pool, { prepare: true });
    let [cuts, killed] = [0, 0];
    const racer = async () => {
      for (let left = true; left; ) {
        // A connection that is cut may have written its ticks or not.
        const wrote = await tick('inbox', engine).catch(() => []);
        left = (await readDue(db.engine, INBOX, ['inbox'], 1)).queues.size > 0;
        if (wrote.length === 0 || cuts >= 5) continue;
        cuts++;
        const cut = await db.rows(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE query LIKE '%AS wanted_instants%' AND query NOT LIKE '%pg_terminate_backend%'`);
        killed += cut.length;
      }
    };
    await Promise.all(Array.from({ length: 10 }, racer));
    await pool.end();
    expect(killed).toBeGreaterThan(0);
    const [seen] =
      await db.rows(`SELECT count(*)::int AS jobs, count(DISTINCT idempotency_key)::int AS keys,
      min(headers ->> 'holdfast_scheduled_at') AS first FROM holdfast.inbox`);
    // A minute may have begun meanwhile.
    const minutes = Math.round(((await latest()) - Date.parse(seen?.first as string)) / 60_000) + 1;
    expect(seen).toMatchObject({ jobs: 10 * minutes, keys: 10 * minutes });
    expect(minutes).toBeGreaterThanOrEqual(300);
    const [sum] = await db.rows('SELECT sum(ticks)::int AS ticks FROM holdfast.schedules');
    expect(sum?.ticks).toBe(10 * minutes);
  }, 120_000);

  async function latest(): Promise<number> {
    const [row] = await db.rows<{ at: Date }>(
      'SELECT min(last_instant) AS at FROM holdfast.schedules',
    );
    return row?.at.getTime() as number;
  }

  test('also when its schedule is set back, or deleted and made again', async () => {
    await db.hf.schedule('a', hourly);
    await setBack('a', 3);
    await tick();
    const first = await instants();
    await setBack('a', 3);
    await tick();
    await db.hf.schedules.delete('a');
    await db.hf.schedule('a', hourly);
    await setBack('a', 3);
    await tick();
    expect(await instants()).toEqual(first);
  });

  test('and of two that have read the same, the second advances nothing', async () => {
    await db.hf.schedule('a', hourly);
    await setBack('a', 3);
    const ticks = (await readDue(db.engine, INBOX, ['inbox'], 500)).queues.get('inbox') ?? [];
    expect(await writeTicks(db.engine, INBOX, ticks)).toMatchObject([{ name: 'a', written: 1 }]);
    expect(await writeTicks(db.engine, INBOX, ticks)).toEqual([]);
  });

  test('also beside a schedule that this worker cannot read', async () => {
    await db.hf.schedule('a', hourly);
    await db.hf.schedule('b', hourly);
    await setBack('a', 1);
    await setBack('b', 1);
    // A newer Node declared it, and knows a zone that this one does not.
    await db.rows(`UPDATE holdfast.schedules SET timezone = 'Mars/Olympus' WHERE name = 'a'`);
    const due = await readDue(db.engine, INBOX, ['inbox'], 500);
    expect(due.unreadable).toEqual([{ name: 'a', error: expect.any(RangeError) }]);
    expect(await tick()).toMatchObject([{ name: 'b', written: 1 }]);
  });

  test('and one that it cannot read does not hide that more are due', async () => {
    for (const name of ['a', 'b', 'c']) await db.hf.schedule(name, hourly);
    await setBack('a', 3);
    await setBack('b', 1);
    await setBack('c', 1);
    await db.rows(`UPDATE holdfast.schedules SET timezone = 'Mars/Olympus' WHERE name = 'a'`);
    expect(await readDue(db.engine, INBOX, ['inbox'], 2)).toMatchObject({ full: true });
    expect(await readDue(db.engine, INBOX, ['inbox'], 1)).toMatchObject({ full: false });
  });

  test('and one that was changed after it was read is left to the next look', async () => {
    await db.hf.schedule('a', hourly);
    await setBack('a', 3);
    const due = await readDue(db.engine, INBOX, ['inbox'], 500);
    await db.rows(`UPDATE holdfast.schedules SET cron = '0 0 1 1 *'`);
    expect(await writeTicks(db.engine, INBOX, due.queues.get('inbox') ?? [])).toEqual([]);
  });

  test('is an ordinary job with the payload, priority, key and attempts of its schedule', async () => {
    const rest = { partitionKey: 'tenant:1', priority: 3, maxAttempts: 2 } as const;
    await db.hf.schedule('a', { ...hourly, ...rest, jitter: '1s' });
    await setBack('a', 3);
    await tick();
    const [id] = await db.rows<{ id: string }>('SELECT id FROM holdfast.inbox');
    const found = await db.hf.job(id?.id as string);
    const at = found?.headers.holdfast_scheduled_at;
    expect(found).toMatchObject({
      ...{ type: 'report', payload: { to: 'ops' }, partitionKey: 'tenant:1', priority: 3 },
      ...{ maxAttempts: 2, idempotencyKey: `schedule:a:${at}` },
      headers: { holdfast_schedule: 'a' },
    });
    const { also } = await db.hf.explain(id?.id as string);
    expect(also.at(-1)).toMatchObject({
      code: 'from_schedule',
      text: `It was made by schedule "a" for ${at}.`,
    });
    const { bucket } = (
      await db.rows(
        `SELECT partition_bucket = holdfast.bucket_of('tenant:1') AS bucket FROM holdfast.inbox`,
      )
    )[0] as { bucket: boolean };
    expect(bucket).toBe(true);
  });

  test('is in the group of its schedule, and counts for its key in a rate', async () => {
    await db.hf.createQueue('turns', { perGroup: 2 });
    const paced = job<{ to: string }>('paced_report', {
      queue: 'turns',
      limit: { rate: { limit: 1, per: '1m', key: ({ to }) => `to:${to}` } },
    });
    const keys = { partitionKey: 'user:1', group: 'tenant:7' };
    await db.hf.schedule('g', { ...hourly, job: paced, ...keys });
    expect(await db.hf.schedules.get('g')).toMatchObject({
      ...{ partitionKey: 'user:1', groupKey: 'tenant:7', limitKey: 'to:ops' },
    });
    const written = () =>
      db.rows(`SELECT partition_key, group_key, limit_key,
        partition_bucket = holdfast.bucket_of(coalesce(group_key, partition_key)) AS placed FROM holdfast.turns`);
    const row = { partition_key: 'user:1', limit_key: 'to:ops', placed: true };
    await setBack('g', 3);
    await tick('turns');
    await db.hf.schedules.runNow('g');
    expect(await written()).toEqual(Array(2).fill({ ...row, group_key: 'tenant:7' }));
    // A queue that has no groups any more gets its ticks all the same.
    await db.rows('DELETE FROM holdfast.turns; DELETE FROM holdfast.turns_idempotency');
    await db.rows(
      `UPDATE holdfast.queues SET ordering = 'none', per_group = NULL WHERE name = 'turns'`,
    );
    await setBack('g', 3);
    await tick('turns');
    expect(await written()).toEqual([{ ...row, group_key: null }]);
  });
});

test('a tick finds its keys, jobs and schedules by their indexes', async () => {
  await db.hf.schedule('a', hourly);
  await setBack('a', 3);
  // Of tables that are empty when they are analyzed, whole indexes are read.
  await db.rows(`INSERT INTO holdfast.inbox_idempotency (key, job_id, fingerprint, expires_at)
    SELECT 'k' || n, gen_random_uuid(), '', now() + interval '1 day' FROM generate_series(1, 2000) AS n`);
  await db.rows(`INSERT INTO holdfast.schedules (name, queue, type, payload, every, next_instant, next_at)
    SELECT 's' || n, 'inbox', 'report', '{}', '1 hour', at, at
    FROM generate_series(1, 2000) AS n, LATERAL (SELECT now() + n * interval '1 minute') AS t(at)`);
  await db.rows('ANALYZE holdfast.inbox_idempotency, holdfast.schedules');
  const { queues } = await readDue(db.engine, INBOX, ['inbox'], 500);
  const params = await paramsOf((catcher) => writeTicks(catcher, INBOX, queues.get('inbox') ?? []));
  const client = new pg.Client({ connectionString: db.url, options: engineOptions() });
  await client.connect();
  const { rows } = await client.query(`EXPLAIN ${load(writeDueTicks, INBOX).text}`, params);
  await client.end();
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
  expect(plan).not.toContain('Seq Scan');
  // The whole of an index is not read for a tick.
  for (const index of ['inbox_idempotency_pkey', 'inbox_job_pkey', 'schedules_pkey'])
    expect(plan).toMatch(new RegExp(`${index} on .*\\n +Index Cond: \\((key|id|name) = `));
});

test('what is due is read through the index, whatever else there is', async () => {
  await db.rows(`INSERT INTO holdfast.schedules (name, queue, type, payload, every, next_instant, next_at)
    SELECT 's' || n, CASE n % 2 WHEN 0 THEN 'inbox' ELSE 'ordered' END, 'report', '{}', '1 hour', at, at
    FROM generate_series(1, 5000) AS n, LATERAL (SELECT now() + (n - 50) * interval '1 second') AS t(at)`);
  const client = new pg.Client({ connectionString: db.url, options: engineOptions() });
  await client.connect();
  const text = load(readDueSchedules, INBOX).text;
  const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, [
    ...['{inbox,ordered}', 500],
  ]);
  await client.end();
  const plan = JSON.stringify(rows[0]);
  expect(plan.match(/"Index Name":"(\w+)"/g)).toEqual([
    '"Index Name":"queues_pkey"',
    '"Index Name":"schedules_due_idx"',
    '"Index Name":"schedules_due_idx"',
  ]);
  expect(plan).not.toContain('Seq Scan');
  // 50 of 5,000 are due.
  expect(rows[0]['QUERY PLAN'][0].Plan['Shared Hit Blocks']).toBeLessThan(120);
});
