/** What the screens ask for and do, with its effect in the database and its row in the audit. */
import { beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { clearAll, plantArchived, plantJob, plantWorker } from '../support/cli-plant.js';
import { asking } from '../support/dashboard.js';
import { testDatabase } from '../support/database.js';

const db = testDatabase();
const ID = '01890000-0000-7000-8000-000000000000';

beforeEach(async () => {
  await clearAll(db);
  await db.rows('DELETE FROM holdfast.schedules');
  await db.rows('DELETE FROM holdfast.audit');
});

const dashboard = () => asking(db.hf, { loopback: true, write: true, actor: 'ada' });
const status = async (id: string) => (await db.hf.job(id))?.status;
const acts = async () =>
  (await db.hf.audit()).acts.map(({ act, actor, jobs }) => [act, actor, jobs]);

describe('what there is', () => {
  test('jobs by their filter, a page at a time', async () => {
    const planted: string[] = [];
    for (let n = 0; n < 5; n++) planted.push(await plantJob(db, { key: 'order:1', type: 'mail' }));
    await plantJob(db, { status: 'dead_letter', error: 'Error: no paper' });
    const done = await plantArchived(db);
    const { get } = dashboard();
    const first = (await get('/api/jobs?key=order:1&limit=3')).body;
    expect(first.jobs.map(({ id }: { id: string }) => id)).toEqual(
      planted.toReversed().slice(0, 3),
    );
    const rest = (await get(`/api/jobs?key=order:1&limit=3&after=${first.next}`)).body;
    expect(rest).toMatchObject({ jobs: [{ id: planted[1] }, { id: planted[0] }], next: null });
    const dead = (await get('/api/jobs?status=dead_letter&error=PAPER')).body.jobs;
    expect(dead).toMatchObject([{ status: 'dead_letter', lastError: 'Error: no paper' }]);
    // On a slow machine a page of the archive may end before it has found anything, and says where to go on.
    let ended = (await get('/api/jobs?status=completed')).body;
    while (ended.jobs.length === 0 && ended.next)
      ended = (await get(`/api/jobs?status=completed&after=${encodeURIComponent(ended.next)}`))
        .body;
    expect(ended.jobs).toMatchObject([{ id: done }]);
    expect((await get('/api/jobs/count?type=mail')).body).toEqual({ count: 5, more: false });
    expect((await get('/api/jobs/count?status=completed')).body).toEqual({ count: 1, more: false });
  });

  test('a search goes on behind a page in which nothing matches', async () => {
    const id = await plantJob(db, { type: 'mail' });
    await db.rows(`INSERT INTO holdfast.inbox (type, partition_key, payload, status, available_at,
        parked, partition_bucket)
      SELECT 'mail', 'k', '{}', 'dead_letter', 'infinity', true, 0 FROM generate_series(1, 10000)`);
    const { body } = await dashboard().get('/api/jobs?status=pending');
    expect(body).toMatchObject({ jobs: [{ id }], next: null });
  });

  test('a job with its payload, its history and the reason why it does not run', async () => {
    const history = [
      { attempt: 1, at: '2026-11-17T08:00:00.000Z', worker: 'w1', outcome: 'failed', error: 'no' },
    ];
    const id = await plantJob(db, {
      history,
      attempts: 1,
      payload: { to: 'ada' },
      dueInMs: 60_000,
    });
    const { body } = await dashboard().get(`/api/jobs/${id}`);
    expect(body.job).toMatchObject({ id, payload: { to: 'ada' }, history, status: 'pending' });
    expect(body.explanation).toMatchObject({ text: expect.any(String), also: expect.any(Array) });
  });

  test('redaction is asked for every part that may hold a secret, in lists and in groups too', async () => {
    const error = 'Error: card 4242 refused';
    const history = [
      { attempt: 1, at: '2026-11-17T08:00:00.000Z', worker: 'w1', outcome: 'failed', error },
    ];
    const id = await plantJob(db, {
      status: 'dead_letter',
      error,
      history,
      payload: { card: '4242' },
    });
    const seen: string[] = [];
    const { get } = asking(db.hf, {
      loopback: true,
      redact(value, { field, queue, type }) {
        seen.push(`${field} ${queue} ${type}`);
        return JSON.parse(JSON.stringify(value).replaceAll('4242', '****').replaceAll('#', '*'));
      },
    });
    const answers = [
      await get(`/api/jobs/${id}`),
      await get('/api/jobs'),
      await get('/api/dead-letters'),
    ];
    for (const { status: code, text } of answers) {
      expect(code).toBe(200);
      expect(text).not.toContain('4242');
    }
    expect(seen).toEqual(
      expect.arrayContaining(['payload inbox send_receipt', 'error inbox send_receipt']),
    );
    expect((await answers[0]!).body.job.history[0].error).toContain('****');
  });

  test('redaction is asked for the error of another job by its own type', async () => {
    await db.hf.createQueue('strict', { ordering: 'key', deadLetters: 'hold' });
    const queue = 'strict';
    const error = 'Error: card 4242 refused';
    await plantJob(db, { queue, status: 'dead_letter', type: 'charge', key: 'ada', error });
    const mail = await plantJob(db, { queue, type: 'mail', key: 'ada' });
    const { get } = asking(db.hf, {
      loopback: true,
      redact: (value, { type }) => (type === 'charge' ? '***' : value),
    });
    const { body, text } = await get(`/api/jobs/${mail}`);
    // Nobody handles it either.
    expect(body.explanation.also).toMatchObject([{ code: 'key_held', text: '***' }]);
    expect(text).not.toContain('4242');
  });

  test('redaction is asked for the error that the doctor quotes', async () => {
    const recent = { ms: 60_000, queues: { inbox: { failed: 50, completed: 0 } } };
    await plantWorker(db, { metadata: { load: { recent } } });
    const history = [{ attempt: 1, at: new Date(), outcome: 'failed' }];
    await plantJob(db, { attempts: 1, error: 'Error: the card of Ada', history });
    const quoted = async (redact?: () => string) => {
      const { body } = await asking(db.hf, { loopback: true, ...(redact && { redact }) }).get(
        '/api/health',
      );
      const found = body.findings.filter(
        ({ check }: { check: string }) => check === 'failing attempts',
      );
      return JSON.stringify(found);
    };
    expect(await quoted()).toContain('the card of Ada');
    expect(await quoted(() => '***')).not.toContain('Ada');
  });

  test('of a redaction that is async, nothing is shown, and its failure ends nothing', async () => {
    const id = await plantJob(db, { payload: { card: '4242' } });
    const redact = async () => {
      throw new Error('too late');
    };
    const { body } = await asking(db.hf, { loopback: true, redact }).get(`/api/jobs/${id}`);
    expect(body.job.payload).toBe('[hidden: redact failed]');
  });

  test('workers, queues, dead letters by group, schedules with their next runs, health and the audit', async () => {
    await plantWorker(db, { id: 'w1', metadata: { version: '1.4.2', host: 'box' } });
    await plantWorker(db, { id: 'w2', status: 'dead', metadata: { holdfast: '0.1.0' } });
    for (const n of [1, 2])
      await plantJob(db, { status: 'dead_letter', error: `Error: no order ${n}` });
    await db.hf.schedule('nightly', { job: job('report'), payload: {}, cron: '0 3 * * *' });
    const { get } = dashboard();
    expect((await get('/api/workers')).body.workers).toMatchObject([
      { id: 'w1', state: 'alive', version: '1.4.2', host: 'box' },
    ]);
    const { workers } = (await get('/api/workers?all=1')).body;
    expect(workers).toHaveLength(2);
    expect(workers[1]).toMatchObject({ id: 'w2', version: 'holdfast 0.1.0' });
    expect((await get('/api/queues')).body.queues[0]).toMatchObject({
      name: 'inbox',
      paused: false,
    });
    expect((await get('/api/dead-letters')).body.groups).toMatchObject([
      { type: 'send_receipt', error: 'Error: no order #', jobs: 2 },
    ]);
    const [schedule] = (await get('/api/schedules')).body.schedules;
    expect(schedule).toMatchObject({ name: 'nightly', paused: false, nextRuns: expect.any(Array) });
    expect(schedule.nextRuns).toHaveLength(3);
    expect((await get('/api/health')).body.findings.length).toBeGreaterThan(10);
    expect((await get('/api/audit')).body.acts).toEqual([]);
  });

  test('the ring of a queue that is read by key, with the place of a key; one by time has none', async () => {
    await db.hf.createQueue('ledger', { ordering: 'key' });
    for (const id of ['w1', 'w2', 'w3'])
      await plantWorker(db, { id, handles: { ledger: { post: 1 } } });
    const { get } = dashboard();
    const { body } = await get('/api/ring?queue=ledger&key=account:7');
    expect(body.owners).toHaveLength(1024);
    expect(body.key).toMatchObject({
      key: 'account:7',
      position: body.key.bucket * 2 ** 22,
      worker: body.workers[body.owners[body.key.bucket]].id,
    });
    const sum = body.workers.reduce(
      (total: number, one: { buckets: number }) => total + one.buckets,
      0,
    );
    expect(sum).toBe(1024);
    expect(body.joining / 1024).toBeLessThan(0.4);
    expect((await get('/api/ring?queue=inbox')).body).toMatchObject({
      ordering: 'none',
      owners: [],
    });
    expect((await get('/api/ring?queue=nowhere')).status).toBe(404);
    await db.hf.dropQueue('ledger').catch(() => undefined);
  });
});

describe('what people do', () => {
  test('retry, discard and cancel by id, and the way back', async () => {
    const [a, b] = [
      await plantJob(db, { status: 'dead_letter' }),
      await plantJob(db, { status: 'dead_letter' }),
    ];
    const c = await plantJob(db);
    const { post } = dashboard();
    expect((await post('/api/jobs/act', { verb: 'retry', ids: [a] })).body).toEqual({ moved: [a] });
    expect((await post('/api/jobs/act', { verb: 'discard', ids: [b] })).body).toEqual({
      moved: [b],
    });
    const reason = 'a test';
    expect((await post('/api/jobs/act', { verb: 'cancel', ids: [c], reason })).body).toEqual({
      moved: [c],
    });
    expect([await status(a), await status(b), await status(c)]).toEqual([
      'pending',
      'discarded',
      'cancelled',
    ]);
    const back = { moved: 1, keyTaken: 0 };
    const letters = { ids: [b], asDeadLetters: true };
    expect((await post('/api/jobs/replay', letters)).body).toEqual(back);
    expect((await post('/api/jobs/replay', { ids: [c] })).body).toEqual(back);
    expect([await status(b), await status(c)]).toEqual(['dead_letter', 'pending']);
    expect(await acts()).toEqual([
      ['replay', 'ada', 1],
      ['replay', 'ada', 1],
      ['cancel', 'ada', 1],
      ['discard', 'ada', 1],
      ['retry', 'ada', 1],
    ]);
    expect((await db.hf.audit({ act: 'cancel' })).acts[0]).toMatchObject({ reason });
  });

  test('all that a filter names, in steps, and nothing else', async () => {
    for (let n = 0; n < 3; n++)
      await plantJob(db, { status: 'dead_letter', error: 'Error: no paper' });
    const other = await plantJob(db, { status: 'dead_letter', error: 'Error: no ink' });
    const { post } = dashboard();
    const body = { verb: 'retry', status: 'dead_letter', error: 'paper' };
    expect((await post('/api/jobs/bulk', body)).body).toMatchObject({ found: 3, next: null });
    expect(await status(other)).toBe('dead_letter');
    expect((await db.hf.jobs({ filter: { status: 'pending' } })).jobs).toHaveLength(3);
    expect(await post('/api/jobs/bulk', { verb: 'cancel' })).toMatchObject({ status: 400 });
    expect((await db.hf.audit()).acts).toMatchObject([
      { act: 'retry', jobs: 3, filter: { status: ['dead_letter'], error: 'paper' } },
    ]);
  });

  test('a group of dead letters, whatever redaction shows of it, and no letter beside it', async () => {
    const dead = (error: string | null, key = 'k', type = 'mail') =>
      plantJob(db, { status: 'dead_letter', key, type, ...(error && { error }) });
    const [a, b] = [await dead('no order 1 here\nat x'), await dead('no order 2 here\nat y')];
    const near = [await dead('no order 3 here, nor there'), await dead(null)];
    near.push(await dead('no order 4 here', 'k', 'fax'));
    const { get, post } = asking(db.hf, { loopback: true, write: true, redact: () => '***' });
    const { groups } = (await get('/api/dead-letters')).body;
    const group = groups.find(({ jobs }: { jobs: number }) => jobs === 2);
    expect(group).toMatchObject({ error: '***', keys: 1, key: 'k', example: b });
    // It joins the group after it was seen.
    const later = await dead('no order 5 here');
    const body = { verb: 'discard', status: 'dead_letter', like: group.example };
    expect((await post('/api/jobs/bulk', body)).body).toEqual({
      ...{ found: 2, moved: [a, b], next: null },
    });
    expect((await db.hf.audit()).acts).toMatchObject([
      { jobs: 2, filter: { status: ['dead_letter'], type: 'mail', like: b } },
    ]);
    const letters = [...near, later].map(status);
    expect(await Promise.all(letters)).toEqual(letters.map(() => 'dead_letter'));
    // Those without an error are a group, not all.
    const [, nothing] = near;
    const none = { verb: 'retry', status: 'dead_letter', like: nothing };
    expect((await post('/api/jobs/bulk', none)).body).toMatchObject({ moved: [nothing] });
    expect(await post('/api/jobs/bulk', { ...none, like: ID })).toMatchObject({ status: 404 });
  });

  test('of a group only the letters that were read are acted on, not older ones', async () => {
    const dead = () => plantJob(db, { status: 'dead_letter', error: 'no' });
    const [old, first, last] = [await dead(), await dead(), await dead()];
    const { get, post } = dashboard();
    const [group] = (await get('/api/dead-letters')).body.groups;
    expect(group).toMatchObject({ first: old, example: last, jobs: 3, redacted: false });
    const body = { verb: 'retry', status: 'dead_letter', like: last, from: first };
    expect((await post('/api/jobs/bulk', body)).body).toMatchObject({ moved: [first, last] });
    expect(await status(old)).toBe('dead_letter');
  });

  test.each([
    ['nothing', undefined, ''],
    ['null', null, ''],
    ['an object', { hidden: true }, '{"hidden":true}'],
  ])('an error of which redact makes %s is a text all the same', async (_, made, shown) => {
    const id = await plantJob(db, { status: 'dead_letter', error: 'card 4242' });
    const { get } = asking(db.hf, { loopback: true, redact: () => made });
    const [group] = (await get('/api/dead-letters')).body.groups;
    expect(group).toMatchObject({ error: shown, redacted: true });
    expect((await get(`/api/jobs/${id}`)).body.job).toMatchObject({ lastError: shown });
  });

  test('a schedule with a jitter shows when it fires, and not its instants', async () => {
    await db.hf.schedule('spread', {
      ...{ every: '1d', jitter: '12h', job: job('spread_work'), payload: {} },
    });
    const { schedules } = (await dashboard().get('/api/schedules?prefix=spread')).body;
    const { nextRuns, nextAt, nextInstant, delayMs } = schedules[0];
    expect(delayMs).toBeGreaterThan(0);
    expect(nextRuns[0]).toBeLessThanOrEqual(Date.parse(nextAt));
    expect((Date.parse(nextAt) - nextRuns[0]) % 86_400_000).toBe(0);
    expect(Date.parse(nextAt) - Date.parse(nextInstant)).toBe(delayMs);
    await db.hf.schedules.delete('spread');
  });

  test('groups by key, each with the letters of its key', async () => {
    const dead = (key: string) => plantJob(db, { status: 'dead_letter', key, error: 'no' });
    const [one, two] = [await dead('order:1'), await dead('order:2')];
    const { get, post } = dashboard();
    const { groups } = (await get('/api/dead-letters?by=key')).body;
    expect(groups).toMatchObject([{ key: 'order:1' }, { key: 'order:2', example: two }]);
    const body = { verb: 'retry', status: 'dead_letter', like: two, key: 'order:2' };
    expect((await post('/api/jobs/bulk', body)).body).toMatchObject({ moved: [two] });
    expect(await status(one)).toBe('dead_letter');
  });

  test('what was made after the page had counted is left', async () => {
    const [old, fresh] = [await plantJob(db, { ageMs: 60_000 }), await plantJob(db)];
    const { post } = dashboard();
    const body = { verb: 'cancel', status: 'pending', seenMsAgo: 30_000 };
    expect((await post('/api/jobs/bulk', { ...body, reason: 'too late' })).body).toMatchObject({
      moved: [old],
    });
    expect(await status(fresh)).toBe('pending');
    // As of a cancel by id.
    expect(await db.hf.job(old)).toMatchObject({ lastError: 'too late' });
    expect((await db.hf.audit()).acts).toMatchObject([
      { act: 'cancel', actor: 'ada', reason: 'too late', filter: { older: 30_000 } },
    ]);
    expect(await post('/api/jobs/bulk', { ...body, seenMsAgo: 'now' })).toMatchObject({
      status: 400,
    });
  });

  test('what grew into the filter since the count is left, what grew out of it is not', async () => {
    const old = await plantJob(db, { ageMs: 120_000 });
    const young = await plantJob(db, { ageMs: 70_000 });
    const { post } = dashboard();
    const body = { verb: 'cancel', status: 'pending', seenMsAgo: 30_000 };
    const moved = async (filter: object) =>
      (await post('/api/jobs/bulk', { ...body, ...filter })).body.moved;
    expect(await moved({ older: '1m' })).toEqual([old]);
    expect(await moved({ newer: '1m' })).toEqual([young]);
  });

  test('a letter that died after the page had counted is left, however old its job is', async () => {
    const dead = (at: number, error: string) =>
      plantJob(db, {
        ...{ status: 'dead_letter', type: 'mail', ageMs: 90_000, error },
        history: [{ attempt: 1, at: new Date(at).toISOString(), outcome: 'dead_letter', error }],
      });
    const before = Date.now() - 60_000;
    const [old, fresh, example] = [
      await dead(before, 'no 1'),
      await dead(Date.now(), 'no 2'),
      await dead(before, 'no 3'),
    ];
    const { post } = dashboard();
    const body = { verb: 'discard', status: 'dead_letter', seenMsAgo: 30_000 };
    const group = { ...body, like: example };
    expect((await post('/api/jobs/bulk', group)).body).toMatchObject({ moved: [old, example] });
    expect((await post('/api/jobs/bulk', body)).body).toMatchObject({ found: 0, moved: [] });
    expect(await post('/api/jobs/bulk', { ...body, like: fresh })).toMatchObject({ status: 409 });
    expect(await post('/api/jobs/bulk', { ...body, like: old })).toMatchObject({ status: 409 });
    expect(await status(fresh)).toBe('dead_letter');
  });

  test('a cancelled job that is taken back waits for its time again', async () => {
    const id = await plantJob(db, { dueInMs: 3_600_000 });
    const { post } = dashboard();
    await post('/api/jobs/act', { verb: 'cancel', ids: [id] });
    await post('/api/jobs/replay', { ids: [id], reason: 'undone' });
    const [inMs] = [(await db.hf.job(id))!.runAt!.getTime() - Date.now()];
    expect([inMs > 3_500_000, inMs <= 3_600_000]).toEqual([true, true]);
  });

  test('a job that waits for its time runs now', async () => {
    const id = await plantJob(db, { dueInMs: 3_600_000 });
    expect((await dashboard().post(`/api/jobs/${id}/run`, {})).status).toBe(200);
    expect((await db.hf.job(id))!.runAt!.getTime()).toBeLessThanOrEqual(Date.now() + 1_000);
    const dead = await plantJob(db, { status: 'dead_letter' });
    expect(await dashboard().post(`/api/jobs/${dead}/run`, {})).toMatchObject({ status: 409 });
  });

  test('an empty name of a type or of a key pauses nothing', async () => {
    for (const part of ['type', 'key'])
      expect(await dashboard().post('/api/queues/inbox/pause', { [part]: '' })).toMatchObject({
        status: 400,
      });
    expect((await db.hf.queues())[0]).toMatchObject({ paused: false });
  });

  test('queues are paused and resumed, workers drained, schedules paused, resumed and run', async () => {
    const { post } = dashboard();
    await post('/api/queues/inbox/pause', { reason: 'a deploy' });
    expect((await db.hf.queues())[0]).toMatchObject({ paused: true });
    await post('/api/queues/inbox/resume', {});
    expect((await db.hf.queues())[0]).toMatchObject({ paused: false });
    await plantWorker(db, { id: 'w1' });
    expect((await post('/api/workers/drain', { id: 'w1' })).body).toEqual({ was: 'alive' });
    expect((await db.hf.workers())[0]).toMatchObject({ status: 'draining' });
    await db.hf.schedule('nightly', { job: job('report'), payload: {}, cron: '0 3 * * *' });
    const act = (verb: string) => post('/api/schedules/act', { name: 'nightly', verb });
    expect((await act('pause')).body).toEqual({ changed: true });
    expect((await act('pause')).body).toEqual({ changed: false });
    expect(await db.hf.schedules.get('nightly')).toMatchObject({ paused: true });
    await act('resume');
    const ran = (await act('run')).body;
    expect(await status(ran.id)).toBe('pending');
    expect((await acts()).map(([name]) => name)).toEqual([
      ...['run_schedule', 'resume_schedule', 'pause_schedule', 'drain', 'resume', 'pause'],
    ]);
  });
});

test.each<[string, string, unknown, number, RegExp]>([
  ['GET', '/api/jobs?status=sleeping', null, 400, /no status "sleeping"/],
  ['GET', '/api/jobs?older=soon', null, 400, /older/],
  ['GET', '/api/jobs?older=99999999d', null, 400, /out of range/],
  ['GET', '/api/jobs?key=%00', null, 400, /refuses a value/],
  ['GET', '/api/jobs?limit=-1', null, 400, /whole number/],
  ['GET', '/api/jobs?limit=5000', null, 400, /limit/],
  ['GET', '/api/jobs?after=x', null, 400, /no place in this list/],
  ['GET', '/api/jobs?queue=nowhere', null, 404, /nowhere/],
  ['GET', '/api/jobs?queue=%22;drop', null, 400, /name/i],
  ['GET', '/api/jobs/nothing', null, 400, /UUID/],
  ['GET', `/api/jobs/${ID}`, null, 404, /No queue/],
  ['GET', '/api/jobs/%E0%A4%A', null, 404, /nothing here/],
  ['GET', '/api/nothing', null, 404, /nothing here/],
  ['GET', '/elsewhere', null, 404, /nothing here/],
  ['GET', '/api/jobs/act', null, 400, /UUID/],
  ['PUT', '/api/jobs', {}, 405, /Use GET/],
  ['DELETE', '/app.js', null, 405, /Use GET/],
  ['GET', '/api/workers/drain', null, 405, /Use POST/],
  ['POST', '/api/jobs/act', { verb: 'explode', ids: [ID] }, 400, /retry, discard, cancel/],
  ['POST', '/api/jobs/act', { verb: 'retry', ids: [] }, 400, /1 to 1000/],
  ['POST', '/api/jobs/act', { verb: 'retry', ids: ['1'] }, 400, /UUID/],
  ['POST', '/api/jobs/act', { verb: 'retry', ids: [ID], reason: 7 }, 400, /reason/],
  ['POST', '/api/jobs/act', [1], 400, /no JSON object/],
  ['POST', '/api/queues/nowhere/pause', {}, 404, /nowhere/],
  ['POST', '/api/workers/drain', {}, 400, /id is missing/],
  ['POST', '/api/workers/drain', { id: 'nobody' }, 404, /no worker/],
  ['POST', '/api/schedules/act', { name: 'none', verb: 'run' }, 404, /none/],
  ['POST', '/api/schedules/act', { name: 'none', verb: 'x' }, 400, /pause, resume, run/],
  ['POST', `/api/jobs/${ID}/run`, {}, 404, /./],
])('%s %s %j is answered with %i and a sentence', async (method, path, body, code, words) => {
  const { ask, post } = dashboard();
  const answer =
    method === 'POST'
      ? await post(path, body)
      : await ask(path, { method, ...(body !== null && { body: JSON.stringify(body) }) });
  expect(answer).toMatchObject({ status: code, body: { error: expect.stringMatching(words) } });
});

test('a person who asks for a page that is not there gets one that says so', async () => {
  const { get } = dashboard();
  const page = await get('/elsewhere', { accept: 'text/html' });
  expect(page).toMatchObject({ status: 404, text: expect.stringContaining('id="app"') });
  expect((await get('/api/elsewhere', { accept: 'text/html' })).text).toContain('nothing here');
});

test('a body that is too large, or no JSON, is refused before anything is done', async () => {
  const { ask, post } = dashboard();
  expect(await post('/api/jobs/act', { x: 'x'.repeat(300_000) })).toMatchObject({ status: 413 });
  const headers = { 'x-holdfast': '1', 'content-type': 'text/plain' };
  expect(await ask('/api/jobs/act', { method: 'POST', headers, body: '{}' })).toMatchObject({
    status: 415,
  });
});
