/** Why is this job not running? Every reason, with the facts that a person needs. */
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { explainJob } from '../../packages/holdfast/src/inspect/explain/explain.js';
import type { RingOwner } from '../../packages/holdfast/src/inspect/explain/facts/situation.js';
import { reading } from '../../packages/holdfast/src/inspect/reading/reading.js';
import { bucketOf } from '../../packages/holdfast/src/job/key.js';
import { clearAll, plantArchived, plantJob, plantWorker } from '../support/cli-plant.js';
import { testDatabase } from '../support/database.js';

const db = testDatabase();
beforeAll(async () => {
  await db.hf.createQueue('outbox');
  await db.hf.createQueue('orders', { ordering: 'key' });
  await db.hf.createQueue('strict', { ordering: 'key', deadLetters: 'hold' });
});
beforeEach(() => clearAll(db));

const explain = (id: string, ringOwner?: RingOwner) =>
  reading(db.pool, (reader) => explainJob(reader, 'holdfast', id, { ringOwner }));
const HOUR = 3_600_000;
const HANDLES = {
  inbox: { send_receipt: 1 },
  orders: { send_receipt: 1 },
  strict: { send_receipt: 1 },
};
/** Shown as `n h 10 min` for half a minute, however slow the machine is. */
const about = (hours: number) => hours * HOUR + 10.5 * 60_000;

describe('a job that waits', () => {
  test('for its time', async () => {
    await plantWorker(db);
    const id = await plantJob(db, { dueInMs: about(1) });
    const answer = await explain(id);
    expect(answer).toMatchObject({ code: 'not_due', also: [], fix: null, job: { id } });
    expect(answer.text).toMatch(
      /^It waits for its time, \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \(in 1 h 10 min\)\.$/,
    );
  });

  test('for its next attempt, after an error', async () => {
    await plantWorker(db);
    const error = 'Error: the mail server is busy\n    at send (mail.js:3)';
    const id = await plantJob(db, { dueInMs: about(2), attempts: 2, error });
    const { code, text } = await explain(id);
    expect(code).toBe('retrying');
    expect(text).toMatch(
      /^Attempt 2 of 5 failed \(Error: the mail server is busy\); the next one is due at .* \(in 2 h 10 min\)\.$/,
    );
  });

  test('because its queue is paused', async () => {
    await plantWorker(db);
    await db.hf.pause('outbox');
    const id = await plantJob(db, { queue: 'outbox' });
    expect(await explain(id)).toMatchObject({
      code: 'queue_paused',
      text: expect.stringContaining('The queue "outbox" is paused'),
      fix: 'holdfast queues resume outbox',
      also: [{ code: 'no_handler' }],
    });
  });

  test('because nobody is there', async () => {
    await plantWorker(db, { status: 'dead' });
    await plantWorker(db, { status: 'draining' });
    const id = await plantJob(db);
    expect(await explain(id)).toMatchObject({ code: 'no_worker', text: 'No worker is alive.' });
  });

  test('because no live worker handles its type on its queue', async () => {
    await plantWorker(db, { handles: { inbox: { refund: 1 }, outbox: { send_receipt: 1 } } });
    await plantWorker(db, { status: 'dead' });
    const id = await plantJob(db);
    expect(await explain(id)).toMatchObject({
      code: 'no_handler',
      text: 'None of 1 live worker handles the type "send_receipt" of the queue "inbox".',
    });
  });

  test('because its type is mistyped: the nearest known one is named', async () => {
    await plantWorker(db);
    const id = await plantJob(db, { type: 'send_recipt' });
    // Another one that is mistyped in the same way says nothing.
    await plantJob(db, { type: 'send_recipt' });
    expect((await explain(id)).text).toBe(
      'None of 1 live worker handles the type "send_recipt" of the queue "inbox". Did you mean "send_receipt"?',
    );
    // One that has run is not mistyped, though nobody handles it any more.
    await plantArchived(db, { type: 'send_recipt' });
    expect((await explain(id)).text).not.toContain('mean');
    // Nobody is alive: limits, the archive and the jobs that wait still know types.
    await db.rows(`UPDATE holdfast.workers SET status = 'dead'`);
    const other = await plantJob(db, { type: 'send_reciept' });
    expect((await explain(other)).text).toMatch(
      /^No worker is alive\. .*not known here\. Did you mean "send_rec(ei|i)pt"\?$/,
    );
  });

  test('because the live workers know older versions of its payload only', async () => {
    await plantWorker(db, { handles: { inbox: { send_receipt: 2 } } });
    const id = await plantJob(db, { version: 3 });
    expect(await explain(id)).toMatchObject({
      code: 'version_too_new',
      text: 'Its payload has version 3; the live workers that handle "send_receipt" know versions up to 2.',
    });
    await plantWorker(db, { handles: { inbox: { send_receipt: 3 } } });
    expect((await explain(id)).code).toBe('waiting_its_turn');
  });

  test('for its turn, by time: who comes before it, who can run it, and what those do', async () => {
    await plantWorker(db, { id: 'w1' });
    await plantWorker(db, { id: 'w2' });
    await plantWorker(db, { id: 'other', handles: { inbox: { refund: 1 } } });
    const id = await plantJob(db, { dueInMs: -(12 * HOUR + 9.5 * 60_000) });
    const ring: RingOwner = () => {
      throw new Error('a queue that is read by time has no ring');
    };
    expect(await explain(id, ring)).toMatchObject({
      code: 'waiting_its_turn',
      bucketOwner: null,
      fix: 'Look at the log of w1, w2, and run holdfast doctor',
      text:
        'It has been due for 12 h 9 min: it is the next. ' +
        '2 live workers can run it and have a free handler, but none has taken it.',
    });
    const young = await plantJob(db, { dueInMs: -100, priority: 1 });
    expect(await explain(young, ring)).toMatchObject({
      text: expect.stringMatching(
        /^It has been due for .*: it is the next\. 2 live workers can run it; none of them holds a job/,
      ),
      fix: null,
    });
    await db.rows('DELETE FROM holdfast.inbox WHERE id = $1', [young]);
    for (let n = 0; n < 4; n++) await plantJob(db, { dueInMs: -about(20) });
    await plantJob(db, { dueInMs: -about(20), status: 'processing', worker: 'w1' });
    await plantJob(db, { dueInMs: -about(20), status: 'processing', worker: 'other' });
    await plantJob(db, { priority: 1 });
    await plantJob(db, { priority: 1, dueInMs: HOUR });
    await plantJob(db, { priority: 3, dueInMs: -about(30) });
    await plantJob(db, { dueInMs: -about(1) });
    // Claims pass over these two.
    await plantJob(db, { dueInMs: -about(20), type: 'unknown' });
    await plantJob(db, { dueInMs: -about(20), version: 2 });
    const { text } = await explain(id, ring);
    expect(text.replace(/\d+ s\.$/, 'N s.')).toBe(
      'It has been due for 12 h 9 min: before it come 4 older jobs of its priority and ' +
        '1 due job of a priority before 2. ' +
        'It has been due for longer than 10 min, so it gets a share of the claims whatever is more urgent. ' +
        '2 live workers can run it; they hold 1 job of this queue, the longest for N s.',
    );
    expect(text).not.toContain('ucket');
  });

  test('for its turn, by key: it is the first of its key, and a worker comes first for its bucket', async () => {
    const owner = await plantWorker(db, { id: 'w-owner', silentMs: 3_200, handles: HANDLES });
    const id = await plantJob(db, { queue: 'orders', key: 'order:1', dueInMs: -about(12) });
    const bucket = bucketOf('order:1');
    const asked: unknown[] = [];
    const answer = await explain(id, (workers, where) => {
      asked.push(
        workers.map((worker) => worker.id),
        where,
      );
      return owner;
    });
    expect(answer).toMatchObject({ code: 'waiting_its_turn', bucketOwner: 'w-owner' });
    expect(answer.text.replace(/\d+ s ago/, 'N s ago')).toBe(
      'It has been due for 12 h 10 min: it is the first of its key. ' +
        `Bucket ${bucket} is read first by worker w-owner (alive, seen N s ago); ` +
        'another worker takes the job if that one has no free handler. ' +
        '1 live worker can run it and has a free handler, but none has taken it.',
    );
    expect(asked).toEqual([['w-owner'], { queue: 'orders', bucket }]);
    expect((await explain(id, () => null)).text).not.toContain('ucket');
    await db.rows(`UPDATE holdfast.workers SET last_seen_at = now() - interval '50 seconds'`);
    expect(await explain(id, () => owner)).toMatchObject({
      code: 'workers_silent',
      text: expect.stringContaining('worker w-owner has been silent for 5'),
    });
  });

  test('as a suspect, to be run apart from others', async () => {
    await plantWorker(db, { id: 'w1' });
    await plantJob(db, { crashes: 2 });
    await plantJob(db, { crashes: 5 });
    await plantJob(db, { crashes: 2, dueInMs: HOUR });
    const id = await plantJob(db, { crashes: 3 });
    expect(await explain(id)).toMatchObject({
      code: 'suspect',
      text:
        'Its worker vanished 3 times while it held the job, so it is a suspect: it runs apart from other jobs, ' +
        'in a group of up to 4, and in the whole fleet one group of suspects runs at a time. ' +
        'None runs now; 1 other suspect comes before it.',
    });
    await plantJob(db, { crashes: 4, status: 'processing', worker: 'w7' });
    expect((await explain(id)).text).toMatch(/1 suspect runs now, on worker w7, for \d+ s; /);
    const twice = await plantJob(db, { crashes: 2 });
    expect((await explain(twice)).text).toMatch(/vanished twice .* in a group of up to 16,/);
    const often = await plantJob(db, { crashes: 4 });
    expect((await explain(often)).text).toContain('other jobs, alone, and in the whole fleet');
    // After one crash it runs as any other, and before its time it waits for that.
    const once = await plantJob(db, { crashes: 1 });
    expect((await explain(once)).code).toBe('waiting_its_turn');
    const later = await plantJob(db, { crashes: 2, dueInMs: about(1) });
    expect(await explain(later)).toMatchObject({ code: 'not_due', also: [] });
  });
});

describe('a job whose key is held', () => {
  const key = 'order:9182';
  const queue = 'orders';
  beforeEach(() => plantWorker(db, { id: 'w1', silentMs: about(2), handles: HANDLES }));

  test('by an earlier one that is retrying', async () => {
    const head = await plantJob(db, { queue, key, attempts: 1, dueInMs: about(3) });
    await plantJob(db, { queue, key });
    const id = await plantJob(db, { queue, key });
    const answer = await explain(id);
    expect(answer.code).toBe('key_held');
    expect(answer.text).toMatch(
      new RegExp(
        `^Its key ${key} is held by job ${head}, which is retrying until .* \\(in 3 h 10 min\\)\\. 2 jobs of the key stand before it\\.$`,
      ),
    );
    // Another key of the same queue is none of its business.
    const other = await plantJob(db, { queue, key: 'order:1' });
    expect(await explain(other)).toMatchObject({
      code: 'workers_silent',
      text: expect.stringContaining('it is the first of its key'),
    });
  });

  test('by an earlier one that waits for its time', async () => {
    await plantJob(db, { queue, key, dueInMs: HOUR });
    const id = await plantJob(db, { queue, key });
    expect((await explain(id)).text).toContain('waits for its time until');
  });

  test('by an earlier one that runs', async () => {
    const head = await plantJob(db, { queue, key, status: 'processing', worker: 'w1' });
    const id = await plantJob(db, { queue, key });
    const answer = await explain(id);
    expect(answer).toMatchObject({ code: 'key_held', fix: null });
    expect(answer.text).toMatch(
      new RegExp(
        `held by job ${head}, which is leased by worker w1 \\(silent, seen 2 h 10 min ago\\) for \\d+ s, until `,
      ),
    );
  });

  test('by an earlier one that is due itself', async () => {
    const head = await plantJob(db, { queue, key });
    const id = await plantJob(db, { queue, key });
    expect(await explain(id)).toMatchObject({ code: 'key_held', fix: `holdfast explain ${head}` });
  });

  test('by an earlier one that is a suspect', async () => {
    const head = await plantJob(db, { queue, key, crashes: 2 });
    const id = await plantJob(db, { queue, key });
    expect(await explain(id)).toMatchObject({
      code: 'key_held',
      text: `Its key ${key} is held by job ${head}, which has crashed its worker twice and waits to be run apart.`,
      fix: `holdfast explain ${head}`,
    });
  });

  test('by a strict dead letter, until somebody acts', async () => {
    const head = await plantJob(db, {
      queue: 'strict',
      key,
      status: 'dead_letter',
      error: 'Error: no',
      attempts: 5,
    });
    const id = await plantJob(db, { queue: 'strict', key });
    expect(await explain(id)).toMatchObject({
      code: 'key_held',
      text: `Its key ${key} is held by job ${head}, which is a dead letter and holds the key until it is retried or discarded (Error: no).`,
      fix: `holdfast jobs retry ${head}, or holdfast jobs discard ${head}`,
    });
    const dead = await explain(head);
    expect(dead.text).toContain(`It holds its key ${key}: behind it waits 1 job.`);
  });

  test('a parked dead letter holds nothing', async () => {
    const parked = await plantJob(db, { queue, key, status: 'dead_letter', parked: true });
    const id = await plantJob(db, { queue, key });
    expect((await explain(id)).code).toBe('workers_silent');
    expect((await explain(parked)).text).not.toContain('holds');
  });

  test('in a queue that is read by time no key holds anything', async () => {
    await plantJob(db, { key, status: 'processing' });
    const id = await plantJob(db, { key });
    expect((await explain(id)).code).toBe('workers_silent');
  });
});

describe('a job that a worker holds', () => {
  test('runs at a live worker, also when its queue was paused since', async () => {
    await plantWorker(db, { id: 'w1', silentMs: about(1), metadata: { ttlMs: about(2) } });
    await db.hf.pause();
    const id = await plantJob(db, {
      status: 'processing',
      worker: 'w1',
      leaseInMs: about(4),
      attempts: 2,
    });
    const answer = await explain(id);
    expect(answer).toMatchObject({ code: 'running', also: [] });
    expect(answer.text).toMatch(
      /^It is running: worker w1 \(alive, seen 1 h 10 min ago\) claimed it \d+ s ago, in attempt 2 of 5, with a lease until .*Z \(in 4 h 10 min\)\.$/,
    );
  });

  test('of a dead worker will be taken back; and what stands in the way of that is said', async () => {
    await plantWorker(db, { id: 'w1', status: 'dead', silentMs: about(5) });
    const id = await plantJob(db, { status: 'processing', worker: 'w1' });
    const answer = await explain(id);
    expect(answer).toMatchObject({ code: 'owner_dead', also: [{ code: 'no_worker' }] });
    expect(answer.text).toContain('worker w1 (dead, seen 5 h 10 min ago), is gone');
  });

  test('of a silent worker: who takes it back, and that nobody does after the end of the whole fleet', async () => {
    await plantWorker(db, { id: 'w1', silentMs: about(5) });
    const id = await plantJob(db, { status: 'processing', worker: 'w1' });
    const late = await plantJob(db, { status: 'processing', worker: 'w1', leaseInMs: -1_000 });
    const start = 'Start a worker: holdfast work';
    expect(await explain(id)).toMatchObject({
      code: 'owner_silent',
      text: expect.stringMatching(/w1 \(silent, seen 5 h 10 min ago\).*No worker is alive to take/),
      fix: start,
    });
    expect(await explain(late)).toMatchObject({
      code: 'lease_expired',
      text: expect.stringContaining('no worker is alive to make one'),
      fix: start,
    });
    await plantWorker(db, { id: 'w2' });
    expect(await explain(id)).toMatchObject({ code: 'owner_silent', fix: null });
    expect(await explain(late)).toMatchObject({ code: 'lease_expired', fix: null });
  });

  test('of a worker that the registry does not know will be taken back', async () => {
    const id = await plantJob(db, { status: 'processing', worker: 'w-forgotten' });
    expect((await explain(id)).text).toContain('worker w-forgotten (not in the registry)');
  });

  test('beyond its lease is taken back', async () => {
    await plantWorker(db, { id: 'w1' });
    const id = await plantJob(db, { status: 'processing', worker: 'w1', leaseInMs: -about(6) });
    const answer = await explain(id);
    expect(answer).toMatchObject({ code: 'lease_expired', also: [] });
    expect(answer.text).toMatch(
      /^Its lease expired 6 h 10 min ago; worker w1 .* attempt 1 of 5\. The next claim/,
    );
  });
});

describe('a job that has ended', () => {
  test('as a dead letter after its attempts, with the error', async () => {
    const at = new Date(Date.now() - about(7)).toISOString();
    const history = [{ attempt: 5, at, outcome: 'failed', error: 'no' }];
    const id = await plantJob(db, {
      status: 'dead_letter',
      attempts: 5,
      error: 'Error: no\nat x',
      history,
    });
    expect(await explain(id)).toMatchObject({
      code: 'dead_letter',
      text: 'It became a dead letter 7 h 10 min ago after 5 attempts: Error: no.',
      fix: `holdfast jobs retry ${id}, or holdfast jobs discard ${id}`,
    });
    const early = await plantJob(db, {
      status: 'dead_letter',
      attempts: 1,
      error: 'DeadLetter: no address',
    });
    expect((await explain(early)).text).toBe(
      'It became a dead letter after 1 attempt, of 5 that it had: DeadLetter: no address.',
    );
  });

  test('as a dead letter that killed its processes: a retry is not the first advice', async () => {
    const id = await plantJob(db, {
      ...{ status: 'dead_letter', attempts: 5, crashes: 9 },
      error: 'The worker w1 vanished while it held this job.',
      history: [{ attempt: 5, at: new Date().toISOString(), outcome: 'vanished', spent: true }],
    });
    const { text, fix } = await explain(id);
    expect(text).toContain(
      'vanished while it held this job. The process of its worker ended 9 times',
    );
    expect(text).not.toContain('..');
    expect(fix).toMatch(/^holdfast jobs discard .* mend its handler first, then .* retry/);
  });

  test('completed, cancelled or discarded, and when', async () => {
    const done = await plantArchived(db, { endedAgoMs: about(8) });
    expect((await explain(done)).text).toMatch(
      /^It was completed at .*Z \(8 h 10 min ago\) by worker w1 in attempt 1\.$/,
    );
    const gone = await plantArchived(db, {
      status: 'cancelled',
      error: 'wrong customer',
      queue: 'outbox',
    });
    expect(await explain(gone)).toMatchObject({
      code: 'cancelled',
      text: expect.stringMatching(/: wrong customer\.$/),
      job: { queue: 'outbox' },
    });
    const thrown = await plantArchived(db, { status: 'dead_letter', error: 'Error: no' });
    expect((await explain(thrown)).text).toMatch(/was discarded at .*its error was: Error: no\.$/);
  });

  test('an id that nobody knows: never seen, rolled back, or pruned', async () => {
    expect(await explain('00000000-0000-4000-8000-000000000000')).toMatchObject({
      code: 'unknown',
      job: null,
      text: expect.stringContaining('It cannot be known which: it was never enqueued here'),
    });
    const idAt = (agoMs: number) => {
      const hex = (Date.now() - agoMs).toString(16).padStart(12, '0');
      return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
    };
    const old = await explain(idAt(40 * 24 * HOUR));
    expect(old.text).toMatch(
      /made 40 d.* ago and the archive keeps 7 d: if it ran, it was pruned since\. It cannot be known/,
    );
    // Nothing in the archive is as old as the id: pruned by hand, or a restore without the archive.
    const bare = await explain(idAt(60_000));
    expect(bare.text).toMatch(
      /has nothing that ended before: .* It cannot be known which: .*; or it ended/,
    );
    for (const queue of ['inbox', 'outbox', 'orders', 'strict'])
      await plantArchived(db, { queue, endedAgoMs: HOUR });
    const recent = await explain(idAt(60_000));
    expect(recent.text).toContain('Most likely its transaction was rolled back or is still open');
    const ran = idAt(120_000);
    await db.rows(
      `INSERT INTO holdfast.inbox_effects (job_id, name, value, generation) VALUES ($1, 'mail', '1', 1)`,
      [ran],
    );
    expect((await explain(ran)).text).toMatch(
      /so it was here and was run\. How it ended cannot be known/,
    );
  });
});

test('no explanation shows a payload', async () => {
  const id = await plantJob(db);
  expect(JSON.stringify(await explain(id))).not.toContain('canary-7f3a');
});
