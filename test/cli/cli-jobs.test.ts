/** Looking at jobs and acting on them from the command line. */
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ringOwners } from '../../packages/holdfast/src/fleet/ring.js';
import { bucketOf } from '../../packages/holdfast/src/job/key.js';
import { clearAll, plantArchived, plantJob, plantWorker } from '../support/cli-plant.js';
import { call, inTerminal, values } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';

const db = testDatabase();
beforeAll(async () => {
  await db.hf.createQueue('outbox');
  await db.hf.createQueue('orders', { ordering: 'key' });
});
beforeEach(() => clearAll(db));

const cli = (words: string) => call(words.split(' '), { env: { DATABASE_URL: db.url } });
const statusOf = async (id: string) => {
  const job = (await db.hf.job(id)) ?? (await db.hf.job(id, { queue: 'outbox' }));
  return job?.status;
};
/** Somebody waits for a row. */
const WAITS = `SELECT FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
  WHERE NOT l.granted AND a.datname = current_database()`;
const NOBODY = '0199a1c2-7d3e-7000-8000-000000009182';

test('jobs wait says how a job ended, with exit code 0 only if it is completed', async () => {
  const done = await plantArchived(db, { endedAgoMs: 1_000 });
  expect(await cli(`jobs wait ${done}`)).toMatchObject({ code: 0, out: 'completed\n', err: '' });
  const dead = await plantJob(db, { status: 'dead_letter', error: 'Error: no such mailbox\n  at' });
  const ran = await cli(`jobs wait ${dead} --timeout 30s`);
  expect(ran).toMatchObject({ code: 1, out: 'dead_letter\n' });
  expect(ran.err).toContain('Error: no such mailbox\n');
  const waits = await plantJob(db, { queue: 'outbox' });
  const late = await cli(`jobs wait ${waits} --timeout 20ms`);
  expect(late).toMatchObject({ code: 1, out: '' });
  expect(late.err).toContain(`Job ${waits} did not end within 20 ms`);
  const seen = cli(`jobs wait ${waits} --json`);
  await cli(`jobs cancel ${waits} --yes`);
  const { code, out } = await seen;
  expect([code, values(out)]).toMatchObject([1, [{ id: waits, status: 'cancelled' }]]);
  expect(out).not.toContain('canary-7f3a');
  expect(await cli(`jobs wait ${NOBODY}`)).toMatchObject({ code: 1, out: '' });
});

describe('jobs ls', () => {
  test('a table for people, with what they need to decide', async () => {
    const id = await plantJob(db, {
      key: 'order:9182',
      status: 'dead_letter',
      attempts: 5,
      error: 'Error: no such mailbox\n    at send',
    });
    const ran = await cli('jobs ls --queue inbox');
    expect(ran).toMatchObject({ code: 0, err: '' });
    const [head, row] = ran.out.split('\n');
    expect(head).toMatch(/^ID +STATUS +TYPE +KEY +TRIES +AGE +DUE +WORKER +ERROR$/);
    expect(row).toMatch(
      new RegExp(`^${id} +dead_letter +send_receipt +order:9182 +5/5 .* Error: no such mailbox$`),
    );
  });

  test('NDJSON for programs, with no payload in it', async () => {
    const first = await plantJob(db, { key: 'a' });
    const second = await plantJob(db, { queue: 'outbox', key: 'b' });
    const ran = await cli('jobs ls --json');
    expect(values(ran.out)).toMatchObject([
      { id: first, queue: 'inbox', status: 'pending', partitionKey: 'a', attempts: 0 },
      { id: second, queue: 'outbox', partitionKey: 'b' },
    ]);
    expect(ran.out).not.toContain('canary-7f3a');
  });

  test('pages: each list says where the next one begins, over all queues', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.unshift(await plantJob(db));
    for (let n = 0; n < 2; n++) ids.push(await plantJob(db, { queue: 'outbox' }));
    [ids[5], ids[6]] = [ids[6] as string, ids[5] as string];
    const seen: string[] = [];
    let more = '';
    for (let page = 0; page < 10; page++) {
      const ran = await cli(`jobs ls --json -n 2${more}`);
      seen.push(...values<{ id: string }>(ran.out).map((job) => job.id));
      const next = /add (--after \S+)/.exec(ran.err)?.[1];
      if (!next) break;
      more = ` ${next}`;
    }
    expect(seen).toEqual(ids);
    const rest = await cli(`jobs ls --json --queue inbox --after ${ids[2]}`);
    expect(values<{ id: string }>(rest.out).map((job) => job.id)).toEqual([ids[3], ids[4]]);
  });

  test('a place that no list has named is a usage error, and nothing is asked', async () => {
    await plantJob(db);
    await plantArchived(db);
    for (const words of [
      'jobs ls --after zzz',
      'jobs ls --queue inbox --after zzz',
      'jobs ls --after inbox:zzz',
      'archive ls --queue inbox --after zzz',
      'archive ls --after inbox:2026-01-01T00:00:00Z/zzz',
      'archive ls --queue inbox --after 2026',
      'archive ls --queue inbox --after 2026-13-01T00:00:00Z',
      `archive ls --after inbox:2026-01-01T00:00:00Z/${'-'.repeat(36)}`,
      'archive ls --after inbox:2026-01-01T00:00:00Z//99999999999999999999',
    ]) {
      const ran = await cli(words);
      expect(ran, words).toMatchObject({ code: 2, out: '' });
      expect(ran.err, words).toContain('--after takes what the list before named');
    }
    const pending = await cli('archive ls --status pending');
    expect(pending).toMatchObject({ code: 2, out: '' });
    expect(pending.err).toContain(
      'Jobs that are pending are not in the archive: ask `holdfast jobs ls`.',
    );
  });

  test('archived jobs are paged as well', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 4; n++) ids.push(await plantArchived(db, { endedAgoMs: n * 1_000 + 500 }));
    const first = await cli('archive ls --json -n 2');
    const next = /add (--after \S+)/.exec(first.err)?.[1];
    const second = await cli(`archive ls --json ${next}`);
    const seen = values<{ id: string }>(first.out + second.out).map((job) => job.id);
    expect(seen).toEqual(ids);
  });

  test('TOOK is how long the last attempt took, and not how long the job waited', async () => {
    const done = await plantArchived(db);
    await db.rows(
      `UPDATE holdfast.inbox_archive SET created_at = completed_at - interval '1 hour',
         claimed_at = completed_at - interval '2 seconds' WHERE id = $1`,
      [done],
    );
    expect((await cli('archive ls')).out).toMatch(new RegExp(`${done}.* ago +2 s( |\\n)`));
  });

  test('filters by status, type, key, age and error; dead-letters and archive are lists as well', async () => {
    const dead = await plantJob(db, { status: 'dead_letter', error: 'Timeout of mail.example' });
    const refund = await plantJob(db, { type: 'refund', key: 'order:1', ageMs: 7_200_000 });
    const running = await plantJob(db, { status: 'processing' });
    const done = await plantArchived(db);
    const gone = await plantArchived(db, { status: 'dead_letter', endedAgoMs: 5_000 });
    const ids = async (words: string) =>
      values<{ id: string }>((await cli(`${words} --json`)).out).map((job) => job.id);
    expect(await ids('jobs ls --status processing,dead_letter')).toEqual([running, dead]);
    expect(await ids('jobs ls --type refund')).toEqual([refund]);
    expect(await ids('jobs ls --partition-key order:1 --older 1h')).toEqual([refund]);
    expect(await ids('jobs ls --newer 1h --error TIMEOUT')).toEqual([dead]);
    expect(await ids('jobs ls --oldest')).toEqual([dead, refund, running]);
    expect(await ids('dead-letters ls')).toEqual([dead]);
    expect(await ids('archive ls')).toEqual([done, gone]);
    expect(await ids('archive ls --status discarded')).toEqual([gone]);
    expect(await ids('jobs ls --status completed')).toEqual([done]);
    const none = await cli('jobs ls --type nothing_of_the_kind');
    expect(none).toMatchObject({ code: 0, out: '', err: 'No job matches.\n' });
  });

  test('dead letters have the time at which they died; one without a history does not', async () => {
    const at = new Date(Date.now() - 3 * 3_600_000 - 90_000).toISOString();
    const early = [{ attempt: 1, at: '2020-01-01T00:00:00Z', outcome: 'failed' }];
    const history = [...early, { attempt: 2, at, outcome: 'failed' }];
    const known = await plantJob(db, { status: 'dead_letter', ageMs: 86_400_000, history });
    const strange = await plantJob(db, { status: 'dead_letter', history: [{ at: 'long ago' }] });
    await plantJob(db, { history });
    const { out } = await cli('dead-letters ls');
    expect(out).toMatch(/AGE +DIED +ERROR$/m);
    expect(out).toMatch(new RegExp(`^${known} .* 3 h 1 min ago`, 'm'));
    expect(out).toMatch(new RegExp(`^${strange} .* - `, 'm'));
    const jobs = values<{ diedAt: string | null }>((await cli('jobs ls --json')).out);
    expect(jobs.map(({ diedAt }) => diedAt)).toEqual([null, null, at]);
  });

  test('dead letters by type and error, without the numbers in it', async () => {
    const refund = await plantJob(db, {
      status: 'dead_letter',
      type: 'refund',
      error: 'Error: no',
    });
    const dead = (key: string, error: string) =>
      plantJob(db, { status: 'dead_letter', key, error });
    await dead('a', 'Error: no order 9182\n    at handler');
    const last = await dead('b', 'Error: no order 9183');
    await plantJob(db, { error: 'Error: no order 9184' });
    const groups = await cli('dead-letters groups');
    expect(groups).toMatchObject({ code: 0, err: '' });
    const [head, ...lines] = groups.out.trimEnd().split('\n');
    expect(head).toMatch(/JOBS +.*TYPE +OLDEST +NEWEST +EXAMPLE +ERROR$/);
    expect(lines).toEqual([
      expect.stringMatching(new RegExp(`^ *2 .*send_receipt .*${last} +Error: no order #$`)),
      expect.stringMatching(new RegExp(`^ *1 .*refund .*${refund} +Error: no$`)),
    ]);
    const json = values((await cli('dead-letters groups --json --type refund')).out);
    expect(json).toMatchObject([{ queue: 'inbox', type: 'refund', jobs: 1, example: refund }]);
    const apart = (await cli('dead-letters groups --by-key --type send_receipt')).out;
    expect(apart).toMatch(/TYPE +KEY +OLDEST/);
    expect(apart.trimEnd().split('\n').slice(1)).toEqual([
      expect.stringMatching(/^ *1 .*send_receipt +a /),
      expect.stringMatching(new RegExp(`^ *1 .*send_receipt +b .*${last}`)),
    ]);
    const none = await cli('dead-letters groups --error nowhere');
    expect(none).toMatchObject({ code: 0, out: '', err: 'No dead letter matches.\n' });
  });

  test('an error message cannot steer the terminal of whoever reads it', async () => {
    const id = await plantJob(db, {
      status: 'dead_letter',
      key: 'a\u001b[2Jb',
      error: 'Error: \u001b]0;owned\u0007\u202e\u009b31m',
    });
    for (const words of ['jobs ls', 'dead-letters ls', `jobs show ${id}`, `explain ${id}`]) {
      const { out } = await cli(words);
      expect(out).toContain('owned');
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
      expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
    }
  });
});

describe('jobs show and explain', () => {
  test('show all that is known of a job, and its payload only when asked', async () => {
    const history = [{ attempt: 1, at: '2026-01-01T00:00:00Z', outcome: 'failed', error: 'no' }];
    const id = await plantJob(db, { queue: 'outbox', key: 'order:1', history });
    const plain = await cli(`jobs show ${id}`);
    expect(plain.code).toBe(0);
    expect(plain.out).toMatch(/^queue +outbox$/m);
    expect(plain.out).toMatch(/^key +order:1$/m);
    expect(plain.out).toMatch(/2026-01-01T00:00:00Z +1 +failed +- +no/);
    expect(plain.out).not.toContain('canary-7f3a');
    expect((await cli(`jobs show ${id} --payload`)).out).toContain('canary-7f3a');
    const [json] = values((await cli(`jobs show ${id} --json`)).out);
    expect(json).toMatchObject({ id, queue: 'outbox', partitionKey: 'order:1', history });
    expect(json).not.toHaveProperty('payload');
    const [full] = values((await cli(`jobs show ${id} --json --payload`)).out);
    expect(full?.payload).toEqual({ secret: 'canary-7f3a' });
    const nobody = await cli(`jobs show ${NOBODY}`);
    expect(nobody).toMatchObject({ code: 1, out: '' });
    expect(nobody.err).toContain(`holdfast explain ${NOBODY}`);
  });

  test('explain answers in words and gives the command that mends it', async () => {
    await plantWorker(db);
    await db.hf.pause();
    const id = await plantJob(db, { dueInMs: 3_600_000 });
    const ran = await cli(`explain ${id}`);
    expect(ran.code).toBe(0);
    expect(ran.out.split('\n')[0]).toContain('is paused');
    expect(ran.out).toContain('→ holdfast queues resume inbox');
    expect(ran.out).toContain('Also: It waits for its time');
    const [json] = values((await cli(`explain ${id} --json`)).out);
    expect(json).toMatchObject({ id, code: 'queue_paused', also: [{ code: 'not_due' }] });
    expect(JSON.stringify(json)).not.toContain('canary-7f3a');
    expect(await cli(`explain ${NOBODY}`)).toMatchObject({ code: 1 });
  });
});

describe('retry, discard and cancel', () => {
  test('by id: says of each what became of it, and fails if one did not move', async () => {
    const dead = await plantJob(db, { queue: 'outbox', status: 'dead_letter' });
    const pending = await plantJob(db);
    const done = await plantArchived(db);
    const ran = await cli(`jobs retry ${dead} ${pending} ${done} ${NOBODY} ${dead}`);
    expect(ran).toMatchObject({ code: 1, out: `${dead}\n` });
    expect(ran.err).toContain(`${pending} was not retried: it is pending.`);
    expect(ran.err).toContain(`${done} was not retried: it is completed, in the archive.`);
    expect(ran.err).toContain(`${NOBODY} was not retried: it is unknown.`);
    expect(ran.err).toContain('1 of 4 dead letters retried.');
    expect(await statusOf(dead)).toBe('pending');
  });

  test('what is final is asked for first: without a terminal it needs --yes', async () => {
    const dead = await plantJob(db, { status: 'dead_letter' });
    const pending = await plantJob(db);
    for (const words of [
      `jobs discard ${dead}`,
      `jobs cancel ${pending}`,
      'dead-letters discard --all',
      'dead-letters retry --all',
      'archive prune --older 0s',
    ]) {
      if (words.startsWith('archive')) await plantArchived(db, { endedAgoMs: 1_000 });
      const ran = await cli(words);
      expect(ran).toMatchObject({ code: 2, out: '' });
      expect(ran.err).toMatch(/^holdfast: This would .*1 .*Nothing was done.*pass --yes/);
    }
    expect(await statusOf(dead)).toBe('dead_letter');
    expect(await statusOf(pending)).toBe('pending');
    expect((await cli(`dead-letters discard ${dead} --yes`)).code).toBe(0);
    expect((await cli(`jobs cancel ${pending} -y`)).code).toBe(0);
    expect(await db.hf.job(pending)).toMatchObject({
      status: 'cancelled',
      lastError: 'cancelled by an operator',
    });
    expect(await db.rows('SELECT id FROM holdfast.inbox')).toEqual([]);
  });

  test('on a terminal it asks with the count, and no means no', async () => {
    const dead = await plantJob(db, { status: 'dead_letter' });
    const env = { DATABASE_URL: db.url, NO_COLOR: '1' };
    const no = await inTerminal(['jobs', 'discard', dead], env, 'n\r');
    expect(no.code).toBe(1);
    expect(no.out).toContain('This will discard 1 dead letter. Go on? [y/N]');
    expect(await statusOf(dead)).toBe('dead_letter');
    const yes = await inTerminal(['dead-letters', 'discard', '--all'], env, 'y\r');
    expect(yes.out).toContain('This will discard 1 dead letter of "inbox". Go on? [y/N]');
    expect(yes.code).toBe(0);
    expect(await db.rows('SELECT id FROM holdfast.inbox')).toEqual([]);
  });

  test('by id, --dry-run says which would be moved and which would not', async () => {
    const dead = await plantJob(db, { status: 'dead_letter' });
    const pending = await plantJob(db);
    const dry = await cli(`jobs retry ${dead} ${pending} --dry-run`);
    expect(dry).toMatchObject({ code: 1, out: '' });
    expect(dry.err).toBe(
      `${pending} would not be retried: it is pending.\nThis would retry 1 dead letter. Nothing was done.\n`,
    );
    expect(await statusOf(dead)).toBe('dead_letter');
    const sure = await cli(`jobs retry ${dead} --dry-run --json`);
    expect(sure.code).toBe(0);
    expect(values(sure.out)).toEqual([{ matched: 1, retried: 0, finished: false }]);
  });

  test('by filter: only what it names, in every queue, and --dry-run only counts', async () => {
    const error = 'Error: no such mailbox';
    const one = await plantJob(db, { status: 'dead_letter', error });
    const two = await plantJob(db, { queue: 'outbox', status: 'dead_letter', error });
    const other = await plantJob(db, { status: 'dead_letter', error: 'Error: other' });
    const dry = await cli('dead-letters retry --error mailbox --dry-run');
    expect(dry).toMatchObject({ code: 0, out: '' });
    expect(dry.err).toBe(
      'This would retry 2 dead letters of "inbox", "outbox". Nothing was done.\n',
    );
    const ran = await cli('dead-letters retry --error mailbox --yes --json');
    expect(values(ran.out)).toEqual([{ matched: 2, retried: 2, finished: true }]);
    expect([await statusOf(one), await statusOf(two), await statusOf(other)]).toEqual([
      'pending',
      'pending',
      'dead_letter',
    ]);
    const cancelled = await cli('jobs cancel --queue inbox --yes');
    expect(cancelled).toMatchObject({ code: 0, out: '1 cancelled\n' });
    expect([await statusOf(one), await statusOf(two)]).toEqual(['cancelled', 'pending']);
    expect((await cli('dead-letters retry --type nothing --yes')).err).toBe(
      'No dead letter matches; nothing was done.\n',
    );
    expect((await cli(`dead-letters retry ${other} --type x`)).code).toBe(2);
  });
});

test('cancel of what waits leaves a job that is claimed meanwhile', async () => {
  const id = await plantJob(db);
  const claimer = await db.pool.connect();
  try {
    await claimer.query('BEGIN');
    await claimer.query(`UPDATE holdfast.inbox SET status = 'processing', claimed_by = 'w1', claimed_at = now(),
      lease_expires_at = now() + interval '1 minute', lease_generation = 1, attempts = 1`);
    const ran = cli('jobs cancel --status pending --yes --json');
    await until('it waits for the row', async () => (await db.rows(WAITS)).length > 0);
    await claimer.query('COMMIT');
    expect(values((await ran).out)).toEqual([{ matched: 1, cancelled: 0, finished: true }]);
  } finally {
    await claimer.query('ROLLBACK');
    claimer.release();
  }
  expect(await statusOf(id)).toBe('processing');
});

describe('queues and workers', () => {
  test('pause and resume, and say when there was nothing to do', async () => {
    expect(await cli('queues pause outbox')).toMatchObject({ code: 0, out: 'outbox\n' });
    expect((await cli('queues pause outbox')).err).toContain('was paused already');
    const listed = values((await cli('queues ls --json')).out);
    expect(listed).toMatchObject([
      { queue: 'inbox', paused: false },
      { queue: 'orders', paused: false },
      { queue: 'outbox', paused: true },
    ]);
    expect((await cli('queues ls')).out).toMatch(/^outbox .* paused$/m);
    expect((await cli('queues resume outbox')).err).toContain('is open');
    expect((await cli('queues resume outbox')).err).toContain('was open already');
    const part = await cli('queues pause outbox --type step --json');
    expect(values(part.out)).toEqual([{ queue: 'outbox', type: 'step', paused: true }]);
    expect((await cli('queues pause outbox --partition-key k')).err).toContain(
      'of the key "k" of queue "outbox" are paused',
    );
    expect((await cli('queues ls')).out).toMatch(
      /^outbox .* partly paused: the type step; the key k$/m,
    );
    expect((await cli('queues resume outbox')).err).toContain('the type step; the key k');
    expect((await cli('queues resume outbox --type step')).err).toContain('are claimed again');
    expect((await cli('queues resume outbox --partition-key k')).code).toBe(0);
    expect((await cli('queues resume outbox --partition-key k')).err).toContain(
      'were open already',
    );
    expect((await cli('queues pause outbox --partition-key k --type step')).code).toBe(2);
  });

  test('workers with their last heartbeat and what they hold; a drain reaches the registry', async () => {
    await plantWorker(db, {
      id: 'w1',
      silentMs: 11_430_000,
      metadata: { version: '1.2.0', host: 'h1', pid: 7, concurrency: 10, load: { running: 4 } },
    });
    await plantWorker(db, { id: 'gone', status: 'dead' });
    await plantJob(db, { status: 'processing', worker: 'w1' });
    const ran = await cli('workers ls');
    expect(ran.out).toMatch(
      /^w1 +silent +3 h 10 min +1 h +1 +- +1\.2\.0 +h1 +7 +inbox: send_receipt$/m,
    );
    expect(ran.out).not.toContain('gone');
    await plantWorker(db, { id: 'stopped', status: 'dead' });
    await db.rows(`UPDATE holdfast.workers SET left_at = now() WHERE id = 'stopped'`);
    const all = (await cli('workers ls --all')).out;
    expect(all).toMatch(/^gone +vanished /m);
    expect(all).toMatch(/^stopped +left /m);
    await db.rows(`DELETE FROM holdfast.workers WHERE id = 'stopped'`);
    expect(values((await cli('workers ls --json')).out)).toMatchObject([{ id: 'w1', held: 1 }]);
    expect(await cli('workers drain w1')).toMatchObject({ code: 0, out: 'w1\n' });
    expect(await db.rows('SELECT id, status FROM holdfast.workers ORDER BY id')).toEqual([
      { id: 'gone', status: 'dead' },
      { id: 'w1', status: 'draining' },
    ]);
    expect((await cli('workers drain w1')).err).toContain('draining already');
    expect(await cli('workers drain gone')).toMatchObject({ code: 1 });
    expect(await cli('workers drain w2')).toMatchObject({
      code: 1,
      err: expect.stringContaining('There is no worker "w2"; nothing was done. Did you mean "w1"?'),
    });
  });

  test('status joins all of it, and tells what runs from what is claimed', async () => {
    await plantWorker(db, {
      id: 'w1',
      metadata: { concurrency: 4, load: { running: 1, held: 2 } },
    });
    await plantJob(db, { dueInMs: -65_000 });
    await plantJob(db, { status: 'dead_letter' });
    for (const _ of [1, 2]) await plantJob(db, { status: 'processing', worker: 'w1' });
    const ran = await cli('status');
    expect(ran.code).toBe(0);
    expect(ran.out).toMatch(/^inbox +1 +0 +0 +2 +1 +0 +1 min \d+ s +0\.0 +time +open$/m);
    expect(ran.out).toMatch(/^QUEUE +PENDING +SCHEDULED +ON HOLD +PROCESSING +DEAD /);
    expect(ran.out).toContain('1 worker alive; it holds 2 jobs; handlers busy: 1/4 25 %');
    const [json] = values<{ queues: object[]; workers: object[] }>(
      (await cli('status --json --queue inbox')).out,
    );
    expect(json?.queues).toMatchObject([
      { queue: 'inbox', pending: 1, deadLetter: 1, approximate: false },
    ]);
    expect(json?.workers).toMatchObject([{ id: 'w1', status: 'alive' }]);
  });
});

describe('ring', () => {
  const handles = { orders: { send_receipt: 1 } };
  interface Share {
    queue: string;
    worker: string;
    buckets: number;
  }

  test('of a queue that is read by key: which worker comes first for how many buckets', async () => {
    await plantWorker(db, { id: 'w1', handles });
    // Another type, another version: it is on the ring of the queue like the others.
    await plantWorker(db, { id: 'w2', handles: { orders: { refund: 2 } } });
    await plantWorker(db, { id: 'w3', handles });
    await plantWorker(db, { id: 'elsewhere' });
    await plantWorker(db, { id: 'gone', status: 'draining', handles });
    const shares = values<Share>((await cli('ring --json')).out);
    expect(shares.map((share) => share.worker).sort()).toEqual(['w1', 'w2', 'w3']);
    expect(shares.reduce((sum, share) => sum + share.buckets, 0)).toBe(1024);
    expect((await cli('ring')).out).toMatch(/^orders +w\d +\d+ +\d+\.\d %$/m);
  });

  test('who comes first for a key, and explain says the same', async () => {
    for (const id of ['w1', 'w2', 'w3']) await plantWorker(db, { id, handles });
    const [row] = values((await cli('ring --partition-key order:9182 --json')).out);
    expect(row).toMatchObject({ queue: 'orders', bucket: bucketOf('order:9182') });
    expect(row?.worker).toBe(ringOwners(['w1', 'w2', 'w3'])[bucketOf('order:9182')]);
    expect(await cli('ring --partition-key order:9182')).toMatchObject({
      out: `order:9182 is in bucket ${row?.bucket} of "orders": ${row?.worker} comes first\n`,
      err: '',
    });
    const id = await plantJob(db, { queue: 'orders', key: 'order:9182' });
    const { out } = await cli(`explain ${id}`);
    expect(out).toContain(`Bucket ${row?.bucket} is read first by worker ${row?.worker} (alive,`);
  });

  test('a queue that is read by time has none', async () => {
    await plantWorker(db);
    expect(await cli('ring --queue inbox')).toMatchObject({
      code: 0,
      out: '',
      err: '"inbox" is read by time and has no ring: any worker takes the oldest due job.\n',
    });
  });

  test('nobody is there', async () => {
    expect(await cli('ring --queue orders')).toMatchObject({
      code: 0,
      out: '',
      err: 'No live worker handles "orders".\n',
    });
  });
});

test('archive prune goes on where somebody else deletes the same rows', async () => {
  const ids: string[] = [];
  for (let n = 0; n < 12; n++) ids.push(await plantArchived(db, { endedAgoMs: 7_200_000 }));
  const other = await db.pool.connect();
  try {
    await other.query('BEGIN');
    await other.query('DELETE FROM holdfast.inbox_archive WHERE id = $1', [ids[0]]);
    const ran = cli('archive prune --older 1h --yes --batch 5 --json');
    await until('it waits for the row', async () => (await db.rows(WAITS)).length > 0);
    await other.query('COMMIT');
    expect(values((await ran).out)).toEqual([{ matched: 12, pruned: 11, finished: true }]);
  } finally {
    await other.query('ROLLBACK');
    other.release();
  }
  expect(await db.rows('SELECT id FROM holdfast.inbox_archive')).toEqual([]);
});

test('archive prune deletes what ended before, and only that', async () => {
  for (let n = 0; n < 12; n++) await plantArchived(db, { endedAgoMs: 7_200_000 });
  const kept = await plantArchived(db, { endedAgoMs: 1_000 });
  const ran = await cli('archive prune --older 1h --yes --batch 5 --json');
  expect(values(ran.out)).toEqual([{ matched: 12, pruned: 12, finished: true }]);
  expect(await db.rows('SELECT id FROM holdfast.inbox_archive')).toEqual([{ id: kept }]);
});

test('colour only on a terminal, and not where NO_COLOR is set', async () => {
  await plantJob(db, { status: 'dead_letter' });
  const env = { DATABASE_URL: db.url };
  expect((await inTerminal(['status'], env)).out).toContain('\u001b[');
  expect((await inTerminal(['status'], { ...env, NO_COLOR: '1' })).out).not.toContain('\u001b[');
  expect((await cli('status')).out).not.toContain('\u001b[');
});
