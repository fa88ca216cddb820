/** What an operator lists: every job once, exactly those that the filter names, and never a payload. */
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { listArchive } from '../../packages/holdfast/src/inspect/job/archive.js';
import type { JobFilter } from '../../packages/holdfast/src/inspect/job/filter.js';
import {
  countJobs,
  listJobs,
  lists,
  type Order,
} from '../../packages/holdfast/src/inspect/job/list.js';
import { showJob } from '../../packages/holdfast/src/inspect/job/show.js';
import { reading } from '../../packages/holdfast/src/inspect/reading/reading.js';
import type { Executor } from '../../packages/holdfast/src/postgres/queryable.js';
import { text } from '../../packages/holdfast/src/postgres/statement.js';
import { clearAll, type Planted, plantArchived, plantJob } from '../support/cli-plant.js';
import { INBOX, testDatabase } from '../support/database.js';

const db = testDatabase();
beforeAll(() => db.hf.createQueue('orders', { ordering: 'key' }));
beforeEach(() => clearAll(db));

/** All pages to the end, as a reader turns them. */
async function everyId(
  filter: JobFilter,
  limit: number,
  order: Order = 'newest',
  scan?: number,
  queue = 'inbox',
) {
  const ids: string[] = [];
  let after: string | null = null;
  let pages = 0;
  do {
    const page = await reading(db.pool, (reader) =>
      listJobs(reader, { schema: 'holdfast', queue }, filter, { after, limit, order, scan }),
    );
    ids.push(...page.jobs.map((job) => job.id));
    after = page.next;
    pages++;
  } while (after !== null);
  return { ids, pages };
}

async function countAll(filter: JobFilter, scan?: number, queue = 'inbox'): Promise<number> {
  let [matched, after] = [0, null as string | null];
  do {
    const step = await reading(db.pool, (reader) =>
      countJobs(reader, { schema: 'holdfast', queue }, filter, after, scan),
    );
    matched += step.matched;
    after = step.next;
  } while (after !== null);
  return matched;
}

describe('pages', () => {
  test('newest and oldest first, each job once, whatever the size of the page', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 23; n++) ids.push(await plantJob(db, { key: `order:${n % 3}` }));
    for (const limit of [1, 5, 23, 100]) {
      expect((await everyId({}, limit)).ids).toEqual([...ids].reverse());
      expect((await everyId({}, limit, 'oldest')).ids).toEqual(ids);
    }
  });

  test('a page that reads its share of rows and finds nothing says where to go on', async () => {
    const wanted = await plantJob(db, { type: 'rare' });
    for (let n = 0; n < 30; n++) await plantJob(db);
    const found = await everyId({ types: ['rare'] }, 10, 'newest', 7);
    expect(found).toEqual({ ids: [wanted], pages: 5 });
    expect(await countAll({ types: ['rare'] }, 7)).toBe(1);
    expect(await countAll({}, 7)).toBe(31);
  });

  test('the jobs of one key by key, and its dead letters among many, each once', async () => {
    const queue = 'orders';
    const mine: string[] = [];
    for (let n = 0; n < 24; n++) {
      const own = n % 3 === 0;
      const dead = { status: 'dead_letter', parked: n % 4 === 0 } as const;
      const id = await plantJob(db, {
        queue,
        key: own ? 'order:1' : 'o',
        ...(n % 2 === 0 && dead),
      });
      if (own) mine.push(id);
    }
    const key = { key: 'order:1' };
    expect((await everyId(key, 50, 'oldest', 3, queue)).ids).toEqual(mine);
    expect((await everyId(key, 2, 'newest', 3, queue)).ids).toEqual([...mine].reverse());
    expect(await countAll(key, 3, queue)).toBe(mine.length);
  });

  test('the jobs of one key by time are found by an index that somebody made, without reading the rest', async () => {
    const wanted = await plantJob(db, { key: 'order:1' });
    for (let n = 0; n < 20; n++) await plantJob(db);
    const dead = await plantJob(db, { key: 'order:1', status: 'dead_letter' });
    const key = { key: 'order:1' };
    // Two rows at a time: eleven pages without the index.
    expect((await everyId(key, 50, 'newest', 2)).pages).toBeGreaterThan(10);
    await db.rows('CREATE INDEX inbox_by_key ON holdfast.inbox (partition_key)');
    onTestFinished(async () => void (await db.rows('DROP INDEX holdfast.inbox_by_key')));
    expect(await everyId(key, 50, 'newest', 3)).toEqual({ ids: [dead, wanted], pages: 1 });
    expect((await everyId(key, 1, 'oldest')).ids).toEqual([wanted, dead]);
    expect(await countAll(key)).toBe(2);
    const plan = await reading(db.pool, (reader) => {
      const { text: page, name } = lists.own.newest.page;
      const asked = { name, text: `EXPLAIN ${page}`, columns: { 'QUERY PLAN': text } };
      const nothing = [null, null, 'order:1', null, null, null, null, 10, 10];
      return reader.run(asked, INBOX, nothing);
    });
    expect(plan.map((row) => row['QUERY PLAN']).join('\n')).toContain('inbox_by_key');
  });

  test('jobs that end while a page is read cost the reader no other job', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) ids.push(await plantJob(db, n === 3 ? { type: 'rare' } : {}));
    const found: string[] = [];
    const read = (after: string | null) =>
      reading(
        db.pool,
        async (reader) => {
          let asked = 0;
          const between: Executor = {
            async run(statement, names, params) {
              const rows = await reader.run(statement, names, params);
              if (statement.name.startsWith('list_') && asked++ === 0)
                await db.rows('DELETE FROM holdfast.inbox WHERE id = ANY ($1)', [ids.slice(0, 2)]);
              return rows;
            },
          };
          const request = { after, limit: 10, order: 'oldest', scan: 3 } as const;
          return listJobs(between, INBOX, { types: ['rare'] }, request);
        },
        { snapshot: true },
      );
    for (let after: string | null = null, pages = 0; pages < 5; pages++) {
      const { jobs, next } = await read(after);
      found.push(...jobs.map(({ id }) => id));
      if (next === null) break;
      after = next;
    }
    expect(found).toEqual([ids[3]]);
  });

  test('a job that ends between two pages costs the reader no other job', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) ids.push(await plantJob(db));
    const read = (after: string | null) =>
      reading(db.pool, (reader) => listJobs(reader, INBOX, {}, { after, limit: 3 }));
    const first = await read(null);
    await db.rows('DELETE FROM holdfast.inbox WHERE id = ANY ($1)', [[ids[5], ids[3]]]);
    expect((await read(first.next)).jobs.map((job) => job.id)).toEqual([ids[2], ids[1], ids[0]]);
  });
});

describe.each(['inbox', 'orders'])('the filter, in %s', (queue) => {
  const jobs: Record<string, Planted> = {
    plain: { key: 'order:1' },
    refund: { key: 'order:1', type: 'refund' },
    old: { key: 'order:2', ageMs: 3_600_000 },
    running: { key: 'order:3', status: 'processing', error: 'Error: first try' },
    dead: { key: 'order:4', status: 'dead_letter', error: 'Error: Mailbox 100% full_' },
    deadOld: { key: 'order:4', status: 'dead_letter', error: 'Error: gone', ageMs: 7_200_000 },
    first: { key: 'order:5' },
    second: { key: 'order:5', priority: 1 },
    parked: { key: 'order:5', status: 'dead_letter', parked: true },
  };
  const cases: [string, JobFilter, string[]][] = [
    ['nothing', {}, Object.keys(jobs)],
    ['one status', { statuses: ['processing'] }, ['running']],
    [
      'dead letters, also parked ones',
      { statuses: ['dead_letter'] },
      ['dead', 'deadOld', 'parked'],
    ],
    [
      'two statuses',
      { statuses: ['processing', 'dead_letter'] },
      ['running', 'dead', 'deadOld', 'parked'],
    ],
    ['a type', { types: ['refund'] }, ['refund']],
    ['types', { types: ['refund', 'nothing_of_the_kind'] }, ['refund']],
    ['a key', { key: 'order:1' }, ['plain', 'refund']],
    ['a key with a parked dead letter', { key: 'order:5' }, ['first', 'second', 'parked']],
    ['a key and a status', { key: 'order:5', statuses: ['pending'] }, ['first', 'second']],
    ['a key of dead letters', { key: 'order:4', statuses: ['dead_letter'] }, ['dead', 'deadOld']],
    ['older than', { olderMs: 1_800_000 }, ['old', 'deadOld']],
    ['newer than', { newerMs: 1_800_000, types: ['refund'] }, ['refund']],
    ['between', { olderMs: 1_800_000, newerMs: 5_400_000 }, ['old']],
    ['error text in any case', { error: 'mailbox' }, ['dead']],
    ['error text with the wildcards of LIKE', { error: '100% full_' }, ['dead']],
    ['error text that only a wildcard would find', { error: 'Mail%full' }, []],
    [
      'all at once',
      {
        statuses: ['dead_letter'],
        types: ['send_receipt'],
        key: 'order:4',
        olderMs: 1_000,
        error: 'gone',
      },
      ['deadOld'],
    ],
  ];

  test.each(cases)('by %s', async (_, filter, names) => {
    const ids: Record<string, string> = {};
    for (const [name, job] of Object.entries(jobs))
      ids[name] = await plantJob(db, { ...job, queue });
    const wanted = names.map((name) => ids[name]);
    const oldest = await everyId(filter, 100, 'oldest', undefined, queue);
    expect(oldest.ids).toEqual(wanted);
    const newest = await everyId(filter, 2, 'newest', 3, queue);
    expect(newest.ids).toEqual([...wanted].reverse());
    expect(await countAll(filter, undefined, queue)).toBe(wanted.length);
  });
});

describe('the archive', () => {
  async function pages(filter: JobFilter, limit: number, budgetMs?: number) {
    const ids: string[] = [];
    let after: string | null = null;
    do {
      const page = await reading(db.pool, (reader) =>
        listArchive(reader, INBOX, filter, { after, limit, budgetMs }),
      );
      ids.push(...page.jobs.map((job) => job.id));
      after = page.next;
    } while (after !== null);
    return ids;
  }

  test('the latest first, each once, over minutes and over years, whatever the budget', async () => {
    // Far enough apart that planting them takes no longer than that.
    const ages = [
      0,
      3_000,
      3_000,
      8_000,
      20_000,
      61_000,
      4_000_000,
      86_400_000,
      9 * 86_400_000,
      4e11,
    ];
    const ids: string[] = [];
    for (const endedAgoMs of ages) ids.push(await plantArchived(db, { endedAgoMs }));
    // Two that ended at the same moment come by id.
    [ids[1], ids[2]] = [ids[2] as string, ids[1] as string];
    await db.rows(
      `UPDATE holdfast.inbox_archive SET completed_at =
      (SELECT completed_at FROM holdfast.inbox_archive WHERE id = $1) WHERE id = $2`,
      [ids[1], ids[2]],
    );
    for (const limit of [1, 3, 50]) {
      for (const budgetMs of [0, 10_000]) expect(await pages({}, limit, budgetMs)).toEqual(ids);
    }
  });

  test('by how jobs ended, by type, by age of the end and by error', async () => {
    const done = await plantArchived(db, { endedAgoMs: 5 });
    const cancelled = await plantArchived(db, {
      status: 'cancelled',
      endedAgoMs: 4,
      error: 'by hand',
    });
    const discarded = await plantArchived(db, { status: 'dead_letter', endedAgoMs: 3 });
    const refund = await plantArchived(db, { type: 'refund', endedAgoMs: 7_200_000 });
    expect(await pages({ statuses: ['completed'] }, 9)).toEqual([done, refund]);
    expect(await pages({ statuses: ['discarded', 'cancelled'] }, 9)).toEqual([
      discarded,
      cancelled,
    ]);
    expect(await pages({ types: ['refund'] }, 9)).toEqual([refund]);
    expect(await pages({ olderMs: 3_600_000 }, 9)).toEqual([refund]);
    expect(await pages({ newerMs: 3_600_000, error: 'BY HAND' }, 9)).toEqual([cancelled]);
  });
});

describe('one job', () => {
  test('with all that is known of it, in the queue and in the archive', async () => {
    const history = [{ attempt: 1, at: '2026-01-01T00:00:00Z', outcome: 'failed', error: 'no' }];
    const live = await plantJob(db, { key: 'order:1', status: 'processing', history });
    const done = await plantArchived(db, { key: 'order:2' });
    const show = (id: string, withPayload = false) =>
      reading(db.pool, (reader) => showJob(reader, 'holdfast', ['inbox'], id, withPayload));
    expect(await show(live)).toMatchObject({
      queue: 'inbox',
      archived: false,
      status: 'processing',
      partitionKey: 'order:1',
      claimedBy: 'w1',
      history,
      payload: null,
    });
    expect(await show(done)).toMatchObject({ archived: true, status: 'completed', payload: null });
    expect((await show(done, true))?.payload).toEqual({ secret: 'canary-7f3a' });
    expect((await show(live, true))?.payload).toEqual({ secret: 'canary-7f3a' });
    expect(await show('0199a1c2-7d3e-7000-8000-000000009182')).toBeNull();
  });

  test('times are ISO 8601 in UTC whatever the database is set to', async () => {
    const id = await plantJob(db, { status: 'dead_letter' });
    const name = new URL(db.url).pathname.slice(1);
    await db.rows(`ALTER DATABASE ${name} SET timezone = 'Asia/Kathmandu'`);
    await db.rows(`ALTER DATABASE ${name} SET datestyle = 'German'`);
    const { default: pg } = await import('pg');
    const pool = new pg.Pool({ connectionString: db.url, max: 1 });
    try {
      const job = await reading(pool, (reader) => showJob(reader, 'holdfast', ['inbox'], id));
      expect(job?.createdAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
      expect(Math.abs(Date.parse(job?.createdAt as string) - Date.now())).toBeLessThan(60_000);
      expect(job?.runAt).toBeNull();
    } finally {
      await pool.end();
      await db.rows(`ALTER DATABASE ${name} RESET ALL`);
    }
  });
});

test('a reader cannot write', async () => {
  const attempt = reading(db.pool, (reader) =>
    reader.run(
      { name: 'x', text: "UPDATE holdfast.queues SET paused = true RETURNING 'x'", columns: {} },
      INBOX,
      [],
    ),
  );
  await expect(attempt).rejects.toMatchObject({ code: '25006' });
});
