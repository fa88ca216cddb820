/** The way back and the audit on the command line, and what a person sets on queues. */
import { hostname } from 'node:os';
import { beforeEach, expect, test } from 'vitest';
import { clearAll, plantArchived, plantJob } from '../support/cli-plant.js';
import { call, run, values } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';

const db = testDatabase();
beforeEach(async () => {
  await clearAll(db);
  await db.rows('TRUNCATE holdfast.audit');
});
/** In a process of its own where it reads from standard input. */
const cli = (words: readonly string[], stdin?: string) => {
  const env = { DATABASE_URL: db.url };
  return stdin === undefined ? call(words, { env }) : run(words, { env, stdin });
};
const line = (words: string) => cli(words.split(' '));

test('archive replay: a count, a dry run, batches, and one row in the audit', async () => {
  for (let n = 0; n < 7; n++) await plantArchived(db, { status: 'cancelled', type: 'a' });
  await plantArchived(db, { status: 'completed', type: 'a' });
  await plantArchived(db, { status: 'cancelled', type: 'b' });
  const dry = await line('archive replay --type a --dry-run');
  expect(dry).toMatchObject({ code: 0, out: '' });
  expect(dry.err).toBe('This would replay 7 finished jobs of "inbox". Nothing was done.\n');
  expect(await line('archive replay --type a')).toMatchObject({ code: 2 });
  expect((await line('archive replay')).err).toContain('Say which');
  const why = ['--reason', 'cancelled by mistake'];
  const ran = await cli([
    'archive',
    'replay',
    '--type',
    'a',
    '--yes',
    '--batch',
    '3',
    '--json',
    ...why,
  ]);
  expect(values(ran.out)).toEqual([{ matched: 7, replayed: 7, keyTaken: 0, finished: true }]);
  expect(await db.rows('SELECT count(*)::int AS n FROM holdfast.inbox')).toEqual([{ n: 7 }]);

  const [act] = values((await line('audit ls --act replay --json')).out);
  expect(act).toMatchObject({
    ...{ queue: 'inbox', jobs: 7, reason: 'cancelled by mistake', application: 'holdfast cli' },
    filter: { types: ['a'], statuses: ['cancelled', 'discarded'] },
    actor: expect.stringContaining(`@${hostname()}`),
  });
  expect((await line('audit ls')).out).toMatch(/ ago +replay +inbox +7 .*cancelled by mistake/);
  expect((await line('audit ls --act replayed')).err).toContain('There is no act "replayed"');
});

test('archive replay by id: what is completed needs its flag, what is unknown is said', async () => {
  const done = await plantArchived(db, { status: 'completed' });
  const gone = await plantArchived(db, { status: 'dead_letter' });
  const nobody = crypto.randomUUID();
  const ran = await cli(['archive', 'replay', gone, done, nobody]);
  expect(ran).toMatchObject({ code: 1, out: '1 replayed\n' });
  expect(ran.err).toContain(`${done} is completed: add --completed`);
  expect(ran.err).toContain(`${nobody} is not in the archive.`);
  const retry = await cli(['jobs', 'retry', done]);
  expect(retry.err).not.toContain('archive replay');
  const again = await cli(['archive', 'replay', done, '--completed', '--yes']);
  expect(again).toMatchObject({ code: 0, out: '1 replayed\n' });
});

test('several ids are one act, and one row of the audit', async () => {
  const ids = [await plantJob(db), await plantJob(db), crypto.randomUUID()];
  const ran = await cli(['jobs', 'cancel', ...ids, '--yes', '--reason', 'twice']);
  expect(ran).toMatchObject({ code: 1, out: `${ids[0]}\n${ids[1]}\n` });
  expect(ran.err).toContain(`${ids[2]} was not cancelled: it is unknown.`);
  expect(values((await line('audit ls --json')).out)).toMatchObject([
    { act: 'cancel', jobs: 2, reason: 'twice', filter: { ids: ids.slice(0, 2) } },
  ]);
  expect(await db.hf.job(ids[0] as string)).toMatchObject({ lastError: 'twice' });
});

test('jobs update changes what waits, and says what it cannot change', async () => {
  const id = await plantJob(db, { dueInMs: 3_600_000 });
  const words = ['jobs', 'update', id, '--payload', '-', '--priority', '1', '--delay', '0s'];
  expect(await cli(words, '{"n": 2}')).toMatchObject({ code: 0, out: `${id}\n` });
  expect(await db.hf.job(id)).toMatchObject({ payload: { n: 2 }, priority: 1 });
  const running = await plantJob(db, { status: 'processing' });
  const refused = await cli(['jobs', 'update', running, '--priority', '1']);
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('is processing') });
  expect(await cli(['jobs', 'update', id])).toMatchObject({ code: 2 });
});

test('queues set shows and sets; queues drop says what goes, and refuses while jobs are there', async () => {
  await line('queues create outbox');
  expect((await line('queues set outbox')).out).toMatch(/^archive retention +7 d$/m);
  const set = await line('queues set outbox --archive-retention 1d --notify off');
  expect(set.out).toMatch(/^archive retention +1 d \(was 7 d\)$/m);
  expect(await line('queues set outbox --notify maybe')).toMatchObject({ code: 2 });
  expect((await line('queues set outbox --age-after off')).out).toMatch(
    /^age after +off \(was 10 min\)$/m,
  );
  expect(await line('queues set nowhere')).toMatchObject({ code: 2 });
  const id = await plantJob(db, { queue: 'outbox' });
  const busy = await line('queues drop outbox --yes');
  expect(busy).toMatchObject({
    code: 1,
    err: expect.stringContaining('it holds jobs (1 pending)'),
  });
  await cli(['jobs', 'cancel', id, '--yes']);
  expect((await line('queues drop outbox --dry-run')).err).toContain('with 1 finished job, 0 ');
  expect(await line('queues drop outbox --yes')).toMatchObject({ code: 0, out: 'outbox\n' });
  expect((await db.hf.queues()).map(({ queue }) => queue)).toEqual(['inbox']);
});

test('enqueue --lines: every line a job, in their order, all or none', async () => {
  await line('queues create orders --ordering key');
  const words = ['enqueue', 'step', '--lines', '--queue', 'orders', '--partition-key', 'order:1'];
  const wrong = await cli(words, '{"n": 1}\nnonsense\n');
  expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining('Line 2 is not JSON') });
  expect(wrong.err).not.toContain('nonsense');
  const ran = await cli(words, '{"n": 1}\n{"n": 2}\n\n{"n": 3}\n');
  expect(ran).toMatchObject({ code: 0, err: '3 jobs enqueued.\n' });
  const rows = await db.rows(
    `SELECT id, (payload ->> 'n')::int AS n, partition_key AS key FROM holdfast.orders ORDER BY position`,
  );
  expect(rows.map(({ id }) => `${id}\n`).join('')).toBe(ran.out);
  expect(rows.map(({ n, key }) => [n, key])).toEqual([1, 2, 3].map((n) => [n, 'order:1']));
});
