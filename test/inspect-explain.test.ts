/** Why is this job not running? Every reason, with the facts that a person needs. */
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { explainJob } from '../src/inspect/explain.js';
import type { RingOwner } from '../src/inspect/explain-situation.js';
import { reading } from '../src/inspect/reading.js';
import { bucketOf } from '../src/job/key.js';
import { clearAll, plantArchived, plantJob, plantWorker } from './support/cli-plant.js';
import { testDatabase } from './support/database.js';

const db = testDatabase();
beforeAll(() => db.hf.createQueue('outbox'));
beforeEach(() => clearAll(db));

const explain = (id: string, ringOwner?: RingOwner) =>
  reading(db.pool, (reader) => explainJob(reader, 'holdfast', id, { ringOwner }));
const HOUR = 3_600_000;
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

  test('for its turn: behind others of its bucket, which a worker owns', async () => {
    const owner = await plantWorker(db, { id: 'w-owner', silentMs: 3_200 });
    for (let n = 0; n < 4; n++) await plantJob(db, { key: 'order:1', dueInMs: -about(20) });
    await plantJob(db, { key: 'order:1', dueInMs: -about(20), status: 'processing' });
    await plantJob(db, { key: 'order:1', dueInMs: -about(20), priority: 1 });
    const id = await plantJob(db, { key: 'order:1', dueInMs: -(12 * HOUR + 9.5 * 60_000) });
    const bucket = bucketOf('order:1');
    const asked: unknown[] = [];
    const answer = await explain(id, (workers, job) => {
      asked.push(
        workers.map((worker) => worker.id),
        job,
      );
      return owner;
    });
    expect(answer).toMatchObject({ code: 'waiting_its_turn', bucketOwner: 'w-owner', fix: null });
    expect(answer.text.replace(/\d+ s ago/, 'N s ago')).toBe(
      `It has been due for 12 h 9 min: of its bucket and priority, 4 due jobs come before it; ` +
        `bucket ${bucket} is owned by worker w-owner (alive, heard N s ago).`,
    );
    expect(asked).toEqual([
      ['w-owner'],
      { queue: 'inbox', bucket, type: 'send_receipt', version: 1 },
    ]);
    expect((await explain(id)).text).toContain(`any of 1 live worker may claim bucket ${bucket}`);
    expect((await explain(id, () => null)).text).toContain(`nobody owns bucket ${bucket}`);
    await db.rows(`UPDATE holdfast.workers SET last_seen_at = now() - interval '50 seconds'`);
    expect((await explain(id, () => owner)).text).toContain('silent for long');
  });
});

describe('a job whose key is held', () => {
  const key = 'order:9182';
  beforeEach(() => plantWorker(db, { id: 'w1', silentMs: about(2) }));

  test('by an earlier one that is retrying', async () => {
    const head = await plantJob(db, { key, ordering: 'key', attempts: 1, dueInMs: about(3) });
    await plantJob(db, { key, ordering: 'key' });
    const id = await plantJob(db, { key, ordering: 'key' });
    const answer = await explain(id);
    expect(answer.code).toBe('key_held');
    expect(answer.text).toMatch(
      new RegExp(
        `^Its key ${key} is held by job ${head}, which is retrying until .* \\(in 3 h 10 min\\)\\. 2 jobs of the key stand before it\\.$`,
      ),
    );
    // Another key of the same queue is none of its business.
    const other = await plantJob(db, { key: 'order:1', ordering: 'key' });
    expect(await explain(other)).toMatchObject({
      code: 'waiting_its_turn',
      text: expect.stringContaining('it is the first of its key'),
    });
  });

  test('by an earlier one that waits for its time', async () => {
    await plantJob(db, { key, ordering: 'key', dueInMs: HOUR });
    const id = await plantJob(db, { key, ordering: 'key' });
    expect((await explain(id)).text).toContain('waits for its time until');
  });

  test('by an earlier one that runs', async () => {
    const head = await plantJob(db, { key, ordering: 'key', status: 'processing', worker: 'w1' });
    const id = await plantJob(db, { key, ordering: 'key' });
    const answer = await explain(id);
    expect(answer).toMatchObject({ code: 'key_held', fix: null });
    expect(answer.text).toMatch(
      new RegExp(
        `held by job ${head}, which is leased by worker w1 \\(alive, heard 2 h 10 min ago\\) until `,
      ),
    );
  });

  test('by an earlier one that is due itself', async () => {
    const head = await plantJob(db, { key, ordering: 'key' });
    const id = await plantJob(db, { key, ordering: 'key' });
    expect(await explain(id)).toMatchObject({ code: 'key_held', fix: `holdfast explain ${head}` });
  });

  test('by a strict dead letter, until somebody acts', async () => {
    const head = await plantJob(db, {
      key,
      ordering: 'key_strict',
      status: 'dead_letter',
      error: 'Error: no',
      attempts: 5,
    });
    const id = await plantJob(db, { key, ordering: 'key_strict' });
    expect(await explain(id)).toMatchObject({
      code: 'key_held',
      text: `Its key ${key} is held by job ${head}, which is a dead letter and holds the key until it is retried or discarded (Error: no).`,
      fix: `holdfast jobs retry ${head}, or holdfast jobs discard ${head}`,
    });
    const dead = await explain(head);
    expect(dead.text).toContain(`It holds its key ${key}: behind it waits 1 job.`);
  });

  test('a parked dead letter holds nothing', async () => {
    await plantJob(db, { key, ordering: 'parked', status: 'dead_letter' });
    const id = await plantJob(db, { key, ordering: 'key' });
    expect((await explain(id)).code).toBe('waiting_its_turn');
  });
});

describe('a job in hand', () => {
  test('runs at a live worker, also when its queue was paused since', async () => {
    await plantWorker(db, { id: 'w1', silentMs: about(1) });
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
      /^It is running: worker w1 \(alive, heard 1 h 10 min ago\) claimed it \d+ s ago, in attempt 2 of 5, with a lease until .*Z \(in 4 h 10 min\)\.$/,
    );
  });

  test('of a dead worker will be recovered; and what stands in the way of that is said', async () => {
    await plantWorker(db, { id: 'w1', status: 'dead', silentMs: about(5) });
    const id = await plantJob(db, { status: 'processing', worker: 'w1' });
    const answer = await explain(id);
    expect(answer).toMatchObject({ code: 'owner_dead', also: [{ code: 'no_worker' }] });
    expect(answer.text).toContain('worker w1 (dead, heard 5 h 10 min ago), is gone');
  });

  test('of a worker that the registry does not know will be recovered', async () => {
    const id = await plantJob(db, { status: 'processing', worker: 'w-forgotten' });
    expect((await explain(id)).text).toContain('worker w-forgotten (not in the registry)');
  });

  test('beyond its lease is taken over by the next claim', async () => {
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
  test('buried after its attempts, with the error', async () => {
    const at = new Date(Date.now() - about(7)).toISOString();
    const history = [{ attempt: 5, at, outcome: 'failed', error: 'no' }];
    const id = await plantJob(db, {
      status: 'dead_letter',
      attempts: 5,
      error: 'Error: no\nat x',
      history,
    });
    expect(await explain(id)).toMatchObject({
      code: 'buried',
      text: 'It was buried 7 h 10 min ago after 5 attempts: Error: no.',
      fix: `holdfast jobs retry ${id}, or holdfast jobs discard ${id}`,
    });
    const early = await plantJob(db, {
      status: 'dead_letter',
      attempts: 1,
      error: 'GiveUp: no address',
    });
    expect((await explain(early)).text).toBe(
      'It was buried after 1 attempt, of 5 that it had: GiveUp: no address.',
    );
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
      text: expect.stringContaining('never enqueued here'),
    });
    const idAt = (ms: number) => {
      const hex = ms.toString(16).padStart(12, '0');
      return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
    };
    const old = await explain(idAt(Date.now() - 40 * 24 * HOUR));
    expect(old.text).toMatch(/made 40 d.* ago and the archive keeps 7 d: if it ran, it was pruned/);
    const recent = await explain(idAt(Date.now() - 60_000));
    expect(recent.text).toContain('rolled back or is still open');
  });
});

test('no explanation shows a payload', async () => {
  const id = await plantJob(db);
  expect(JSON.stringify(await explain(id))).not.toContain('canary-7f3a');
});
