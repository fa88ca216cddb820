/** Webhooks over real HTTP into a real queue: what is answered with 2xx is there, once, and what is not comes again. */
import { once } from 'node:events';
import net from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { holdfast, job } from '../../../packages/holdfast/src/index.js';
import {
  github,
  type Received,
  type ReceiveOptions,
  type Receiver,
  Refused,
  receive,
  slack,
  standardWebhooks,
  stripe,
} from '../../../packages/holdfast/src/shapes/receive/index.js';
import { Child } from '../../support/child.js';
import { testDatabase } from '../../support/database.js';
import { heldLine } from '../../support/held-line.js';
import { Line } from '../../support/line.js';
import { quietLogger, recordingLogger } from '../../support/logger.js';
import { post, served, signers, whsec } from '../../support/signed-webhooks.js';
import { until } from '../../support/until.js';
import { testWorkers } from '../../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const SECRET = whsec('secret');
const BODY = '{"type":"invoice.paid","data":{"amount":1999}}';

const jobsOf = (type: string) =>
  db.rows<{ id: string; payload: Received; headers: object | null; key: string }>(
    `SELECT id, payload, headers, partition_key AS key FROM holdfast.inbox WHERE type = $1 ORDER BY position`,
    [type],
  );

/** A receiver of Standard Webhooks, and how they are sent to it. */
async function hooks(type: string, options: Partial<ReceiveOptions> = {}, hf = db.hf) {
  const hook = receive(hf, job<Received>(type), { verify: standardWebhooks(SECRET), ...options });
  const url = await served(hook.node);
  const send = (id: string, body = BODY, headers: Record<string, string> = {}) =>
    post(url, { ...signers.standardWebhooks({ secret: SECRET, body, id }), ...headers }, body);
  return { hook, url, send };
}

test('an event is answered once its job is committed, and a handler gets what was sent', async () => {
  const type = 'delivered';
  const { send, hook } = await hooks(type, {
    headers: ['X-Request-Id', 'x-absent'],
    enqueue: ({ type: of }) => ({ partitionKey: `of:${of}`, priority: 1 }),
  });
  const { status, text } = await send('evt_1', BODY, { 'x-request-id': 'r-7' });
  expect({ status, text }).toEqual({ status: 200, text: '' });
  const [row] = await jobsOf(type);
  expect(row).toMatchObject({
    payload: { id: 'evt_1', type: 'invoice.paid', body: JSON.parse(BODY) },
    headers: { 'x-request-id': 'r-7' },
    key: 'of:invoice.paid',
  });
  const got: unknown[] = [];
  const { worker } = start(db.hf, (w) =>
    w.handle(job<Received<{ data: { amount: number } }>>(type), ({ payload, headers }) => {
      got.push(payload.body.data.amount, headers['x-request-id']);
    }),
  );
  await until('it was handled', () => worker.stats.completed === 1);
  expect(got).toEqual([1999, 'r-7']);
  expect(hook.stats).toEqual({
    ...{ accepted: 1, repeated: 0, conflicts: 0, refused: 0, unavailable: 0 },
  });
});

test('the text is kept byte for byte where that is asked for, also what jsonb could not hold', async () => {
  const { send } = await hooks('as_text', { as: 'text' });
  const body = '{ "n": 12345678901234567890,\n "nul": "\\u0000", "type": "é" }';
  expect((await send('evt_1', body)).status).toBe(200);
  const [row] = await jobsOf('as_text');
  expect(row?.payload).toEqual({ id: 'evt_1', type: 'é', body });
});

describe('the same id', () => {
  test('is one job, however often and wherever it comes, also after the job has completed', async () => {
    const type = 'repeated';
    const [one, two] = [await hooks(type), await hooks(type)];
    const told = await Promise.all(
      Array.from({ length: 40 }, (_, n) => (n % 2 ? one : two).send(`evt_${n % 4}`)),
    );
    expect(new Set(told.map(({ status }) => status))).toEqual(new Set([200]));
    expect(await jobsOf(type)).toHaveLength(4);
    const { worker } = start(db.hf, (w) => w.handle(job<Received>(type), () => undefined));
    await until('all are done', () => worker.stats.completed === 4);
    expect((await one.send('evt_0')).status).toBe(200);
    expect(await jobsOf(type)).toEqual([]);
    const sum = (name: 'accepted' | 'repeated' | 'conflicts') =>
      one.hook.stats[name] + two.hook.stats[name];
    expect([sum('accepted'), sum('repeated'), sum('conflicts')]).toEqual([4, 37, 0]);
  });

  test('with another body: 2xx, the first one counts, and the log says so without either', async () => {
    const logger = recordingLogger();
    const hf = holdfast({ connectionString: db.url, logger });
    onTestFinished(() => hf.close());
    const { send, hook } = await hooks('conflict', {}, hf);
    await send('evt_1');
    expect((await send('evt_1', BODY.replace('1999', '1'))).status).toBe(200);
    const [row, ...more] = await jobsOf('conflict');
    expect(more).toEqual([]);
    expect(row?.payload.body).toEqual(JSON.parse(BODY));
    expect(hook.stats).toMatchObject({ accepted: 1, repeated: 1, conflicts: 1 });
    expect(logger.lines).toMatchObject([
      { level: 'warn', facts: { type: 'conflict', job: row?.id } },
    ]);
    expect(JSON.stringify(logger.lines)).not.toMatch(/1999|amount|invoice/);
  });

  test('of Stripe may have another body: its events count what is still to be delivered', async () => {
    const hook = receive(db.hf, job<Received>('stripes'), { verify: stripe('whsec_x') });
    const url = await served(hook.node);
    for (const pending of [2, 1]) {
      const body = `{"id":"evt_1","type":"charge.succeeded","pending_webhooks":${pending}}`;
      const { status } = await post(url, signers.stripe({ secret: 'whsec_x', body }), body);
      expect(status).toBe(200);
    }
    expect(await jobsOf('stripes')).toHaveLength(1);
    expect(hook.stats).toMatchObject({ accepted: 1, repeated: 1, conflicts: 0 });
  });

  test('decides alone, also if the definition folds jobs into one', async () => {
    const unique = { by: () => 'all', while: 'pending' } as const;
    const hook = receive(db.hf, job<Received>('folds', { unique }), {
      verify: standardWebhooks(SECRET),
    });
    const url = await served(hook.node);
    for (const id of ['a', 'b', 'a'])
      await post(url, signers.standardWebhooks({ secret: SECRET, body: BODY, id }), BODY);
    expect(await jobsOf('folds')).toHaveLength(2);
  });

  test('of another tenant, provider or job is another event', async () => {
    const ask = (source: string) => ({ verify: () => ({ id: 'evt:1', source }) });
    const all = [
      await hooks('apart', ask('a')),
      await hooks('apart', ask('a:evt')),
      await hooks('apart'),
      await hooks('apart_too', ask('a')),
    ];
    for (const { send } of all) expect((await send('evt:1')).status).toBe(200);
    expect(await jobsOf('apart')).toHaveLength(3);
    expect(await jobsOf('apart_too')).toHaveLength(1);
  });
});

describe('is refused, with the reason and without a job:', () => {
  test('a wrong signature, an old one, and what is no POST', async () => {
    const { url, send, hook } = await hooks('refused');
    const wrong = signers.standardWebhooks({ secret: whsec('other'), body: BODY });
    expect(await post(url, wrong, BODY)).toMatchObject({
      ...{ status: 401, text: 'the signature is wrong\n' },
    });
    const old = signers.standardWebhooks({ secret: SECRET, body: BODY, off: -600 });
    expect(await post(url, old, BODY)).toMatchObject({ status: 401, text: /too old/ });
    const got = await fetch(url);
    expect([got.status, got.headers.get('allow')]).toEqual([405, 'POST']);
    expect((await send('evt_1', '{"a":')).text).toBe('the body is not JSON\n');
    expect((await send('evt_1', BODY, { 'content-encoding': 'gzip' })).status).toBe(415);
    expect((await send('x'.repeat(300))).status).toBe(400);
    expect((await send('evt_1', '{"a":"\\u0000"}')).status).toBe(400);
    expect((await send('evt_1', '{"__proto__":{"a":1}}')).status).toBe(400);
    const latin = Buffer.from('{"a":"\xe9"}', 'latin1');
    const verify = () => ({ id: 'evt_1' });
    const { url: any } = await hooks('refused', { verify });
    expect((await fetch(any, { method: 'POST', body: latin })).status).toBe(400);
    expect(hook.stats).toMatchObject({ accepted: 0, refused: 8, unavailable: 0 });
    expect(await jobsOf('refused')).toEqual([]);
  });

  test('an event that does not fit the schema of the job; those beside it are taken', async () => {
    const schema = z.object({ id: z.string(), type: z.any(), body: z.object({ n: z.number() }) });
    const hook = receive(db.hf, job('fits', { schema }) as never, {
      verify: standardWebhooks(SECRET),
    });
    const url = await served(hook.node);
    const told = await Promise.all(
      Array.from({ length: 30 }, (_, n) => {
        const body = n % 10 === 3 ? '{"n":"secret"}' : `{"n":${n}}`;
        return post(url, signers.standardWebhooks({ secret: SECRET, body }), body);
      }),
    );
    expect(told.map(({ status }) => status)).toEqual(
      Array.from({ length: 30 }, (_, n) => (n % 10 === 3 ? 400 : 200)),
    );
    expect(told[3]?.text).toBe('the event does not fit the schema of its job\n');
    expect(await jobsOf('fits')).toHaveLength(27);
  });

  test('a body over its limit, whether it says so or not, and the rest of it is not read', async () => {
    const { hook, url, send } = await hooks('large', { maxBytes: 1_000 });
    expect((await send('evt_1', JSON.stringify('x'.repeat(999)))).status).toBe(413);
    const endless = new ReadableStream({
      pull: (controller) => controller.enqueue(new Uint8Array(64 * 1024)),
    });
    const init = { method: 'POST', body: endless, duplex: 'half' } as RequestInit;
    // The server closes the connection: the client may notice that before it reads the answer.
    const status = await fetch(url, init).then(
      (response) => response.status,
      () => 413,
    );
    expect(status).toBe(413);
    const stream = new ReadableStream({
      pull: (controller) => controller.enqueue(new Uint8Array(64 * 1024)),
    });
    const request = new Request(url, { method: 'POST', body: stream, duplex: 'half' } as never);
    expect((await hook.fetch(request)).status).toBe(413);
    await until('all were refused', () => hook.stats.refused === 3);
    expect(await jobsOf('large')).toEqual([]);
  });

  test('a body that drips past the time limit', async () => {
    const { url, hook } = await hooks('drip', { timeout: 150 });
    const socket = net.connect(Number(new URL(url).port), '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    socket.write('POST /hooks HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{');
    const drip = setInterval(() => socket.write(' '), 20);
    onTestFinished(() => clearInterval(drip));
    socket.on('error', () => undefined);
    const [answer] = await once(socket, 'data');
    expect(String(answer)).toMatch(/^HTTP\/1\.1 408 .*connection: close/is);
    await once(socket, 'close');
    const slow = new ReadableStream({ pull: () => new Promise(() => undefined) });
    const request = new Request(url, { method: 'POST', body: slow, duplex: 'half' } as never);
    expect((await hook.fetch(request)).status).toBe(408);
  });
});

test('Slack is answered its challenge, and only if it signed it', async () => {
  const hook = receive(db.hf, job<Received>('slacks'), { verify: slack('s') });
  const url = await served(hook.node);
  const body = '{"type":"url_verification","challenge":"<b>3eZbrw</b>"}';
  const told = await post(url, signers.slack({ secret: 's', body }), body);
  expect(told).toMatchObject({ status: 200, text: '<b>3eZbrw</b>' });
  expect(told.headers.get('content-type')).toBe('text/plain; charset=utf-8');
  expect((await post(url, signers.slack({ secret: 'other', body }), body)).status).toBe(401);
  const event = '{"type":"event_callback","event_id":"Ev08MFMKH6","event":{"type":"app_mention"}}';
  expect((await post(url, signers.slack({ secret: 's', body: event }), event)).status).toBe(200);
  expect(await jobsOf('slacks')).toMatchObject([
    { payload: { id: 'Ev08MFMKH6', type: 'app_mention' } },
  ]);
});

test('GitHub may send a form: its JSON stands in a field', async () => {
  const hook = receive(db.hf, job<Received>('githubs'), { verify: github('s') });
  const body = new URLSearchParams({ payload: '{"ref":"refs/heads/main"}' }).toString();
  const headers = {
    ...signers.github({ secret: 's', body, id: 'd-1' }),
    'content-type': 'application/x-www-form-urlencoded',
  };
  expect((await post(await served(hook.node), headers, body)).status).toBe(200);
  expect(await jobsOf('githubs')).toMatchObject([
    { payload: { id: 'd-1', type: 'push', body: { ref: 'refs/heads/main' } } },
  ]);
});

test('a function of yours decides: false and errors are 401, Refused says what, and nothing leaks', async () => {
  const logger = recordingLogger();
  const hf = holdfast({ connectionString: db.url, logger });
  onTestFinished(() => hf.close());
  const verify: ReceiveOptions['verify'] = async ({ headers, url, json }) => {
    const how = headers.get('x-how');
    if (how === 'false') return false;
    if (how === 'throw') throw new Error('expected hmac of sk_live_1');
    if (how === 'refuse') throw new Refused('this tenant is closed', 410);
    if (how === 'hang') return new Promise(() => undefined);
    if (how === 'keys are away')
      throw new TypeError('fetch failed', {
        cause: Object.assign(new Error(), { code: 'ECONNRESET' }),
      });
    if (how === 'away') throw Object.assign(new Error('no'), { code: '57P01' });
    if (how === 'answer') return { answer: 'hello' };
    return { id: `${how}`, source: url, body: { was: json() } };
  };
  const { send, url } = await hooks('own', { verify, timeout: 300 }, hf);
  const told = async (how: string) => {
    const { status, text } = await send('ignored', BODY, { 'x-how': how });
    return [status, text];
  };
  expect(await told('false')).toEqual([401, 'the webhook could not be verified\n']);
  expect(await told('throw')).toEqual([401, 'the webhook could not be verified\n']);
  expect(await told('refuse')).toEqual([410, 'this tenant is closed\n']);
  expect(await told('answer')).toEqual([200, 'hello']);
  expect(await told('evt_1')).toEqual([200, '']);
  expect(await jobsOf('own')).toMatchObject([{ payload: { body: { was: JSON.parse(BODY) } } }]);
  expect(url).toMatch(/hooks$/);
  expect(JSON.stringify(logger.lines)).not.toMatch(/sk_live|1999/);
  // Anybody may send such requests: one line a minute for each reason.
  for (let n = 0; n < 5; n++) await told('false');
  expect(logger.lines).toHaveLength(2);
  // What it asks may be away, or hang: then the event comes again.
  expect((await told('away'))[0]).toBe(503);
  expect((await told('keys are away'))[0]).toBe(503);
  expect((await told('hang'))[0]).toBe(503);
});

describe('rows of the program', () => {
  test('commit with the job, once for each event; if they fail there is neither', async () => {
    await db.rows('CREATE TABLE invoices (id text PRIMARY KEY, amount int CHECK (amount > 0))');
    const { send, hook } = await hooks('with_rows', {
      within: (tx, event) => {
        if (event.id === 'unwanted') throw new Refused('not for us', 422);
        return tx.query('INSERT INTO invoices VALUES ($1, $2)', [
          event.id,
          (event.body as { data: { amount: number } }).data.amount,
        ]);
      },
    });
    expect(await send('unwanted')).toMatchObject({ status: 422, text: 'not for us\n' });
    const told = await Promise.all(['a', 'a', 'b', 'a'].map((id) => send(id)));
    expect(told.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const refused = await send('c', BODY.replace('1999', '-1'));
    expect(refused).toMatchObject({ status: 500 });
    expect(refused.text).not.toMatch(/check|invoices/);
    expect(await db.rows('SELECT id FROM invoices ORDER BY id')).toEqual([
      { id: 'a' },
      { id: 'b' },
    ]);
    expect(await jobsOf('with_rows')).toHaveLength(2);
    expect(hook.stats).toMatchObject({ accepted: 2, repeated: 2, unavailable: 1 });
    // It failed for a while only: the same event is taken when it comes again.
    expect((await send('c')).status).toBe(200);
  });
});

describe('when the database cannot take it', () => {
  test('it is away: 503 with Retry-After, and what comes again later is there once', async () => {
    const line = await Line.to(db.url);
    const hf = holdfast({ connectionString: line.url, logger: quietLogger });
    onTestFinished(() => hf.close());
    const { send, hook } = await hooks('away', {}, hf);
    const ids = Array.from({ length: 20 }, (_, n) => `evt_${n}`);
    const told = await Promise.all(ids.map((id) => send(id)));
    for (const { status, headers, text } of told) {
      expect([status, headers.get('retry-after')]).toEqual([503, '5']);
      expect(text).not.toMatch(/ECONN|127\.0/);
    }
    await line.mend();
    await until('all are taken', async () => {
      const again = await Promise.all(ids.map((id) => send(id)));
      return again.every(({ status }) => status === 200);
    });
    expect(await jobsOf('away')).toHaveLength(20);
    expect(hook.stats.unavailable).toBeGreaterThanOrEqual(20);
  });

  test('the queue is full: 503, and none is lost', async () => {
    await db.hf.createQueue('full');
    await db.hf.configureQueue('full', { maxPending: 3 });
    const hf = holdfast({ connectionString: db.url, logger: quietLogger });
    onTestFinished(() => hf.close());
    const hook = receive(hf, job<Received>('much', { queue: 'full' }), {
      verify: standardWebhooks(SECRET),
    });
    const url = await served(hook.node);
    const told = await Promise.all(
      Array.from({ length: 8 }, () =>
        post(url, signers.standardWebhooks({ secret: SECRET, body: BODY }), BODY),
      ),
    );
    const taken = told.filter(({ status }) => status === 200);
    expect(taken).toHaveLength(3);
    expect(told.filter(({ status }) => status === 503)).toHaveLength(5);
    expect(await db.rows('SELECT FROM holdfast.full')).toHaveLength(3);
  });

  test('it does not answer in time: 503, and the next delivery finds what was written', async () => {
    const slow = new URL(db.url);
    slow.searchParams.set('application_name', 'receiver');
    const line = await heldLine(slow.toString(), { names: /receiver/, from: /take_keys/ });
    const hf = holdfast({ connectionString: line.url, logger: quietLogger });
    const { send, hook } = await hooks('late', { timeout: 1_000 }, hf);
    expect((await send('evt_1')).status).toBe(503);
    expect(line.kept).toBe(1);
    const { send: sendAgain, hook: other } = await hooks('late');
    expect((await sendAgain('evt_1')).status).toBe(200);
    expect(await jobsOf('late')).toHaveLength(1);
    expect([hook.stats.accepted, other.stats.repeated]).toEqual([0, 1]);
    line.release();
    void hf.close().catch(() => undefined);
  });
});

test('a process that is killed between commit and answer: the next delivery is deduplicated', async () => {
  const slow = new URL(db.url);
  slow.searchParams.set('application_name', 'receiver');
  const line = await heldLine(slow.toString(), { names: /receiver/, from: /take_keys/ });
  const child = new Child('receiver', { url: line.url, secret: SECRET });
  const { id: port } = await child.hears('listening');
  const headers = signers.standardWebhooks({ secret: SECRET, body: BODY, id: 'evt_1' });
  const lost = post(`http://127.0.0.1:${port}/`, headers, BODY).catch(() => 'no answer');
  await until('it is committed', async () => (await jobsOf('paid')).length === 1);
  child.signal('SIGKILL');
  expect(await lost).toBe('no answer');
  const { send, hook } = await hooks('paid');
  expect((await send('evt_1')).status).toBe(200);
  expect(await jobsOf('paid')).toHaveLength(1);
  expect(hook.stats).toMatchObject({ accepted: 0, repeated: 1 });
});

describe('body parsers', () => {
  const parsed = (
    how: (request: { body?: unknown; rawBody?: unknown }, bytes: Buffer) => unknown,
  ) => {
    return async (hook: Receiver) =>
      served(async (request, response) => {
        const chunks: Buffer[] = [];
        for await (const chunk of request) chunks.push(chunk);
        how(request as never, Buffer.concat(chunks));
        await hook.node(request, response);
      });
  };
  const send = (url: string) =>
    post(url, signers.standardWebhooks({ secret: SECRET, body: BODY }), BODY);

  test('that leave the raw bytes are welcome', async () => {
    const { hook } = await hooks('raw');
    const raw = await parsed((request, bytes) => Object.assign(request, { body: bytes }))(hook);
    const kept = await parsed((request, bytes) => {
      request.body = JSON.parse(String(bytes));
      request.rawBody = bytes;
    })(hook);
    expect([(await send(raw)).status, (await send(kept)).status]).toEqual([200, 200]);
  });

  test('that have taken them away are named, to the sender and in the log', async () => {
    const logger = recordingLogger();
    const hf = holdfast({ connectionString: db.url, logger });
    onTestFinished(() => hf.close());
    const { hook, url } = await hooks('parsed', {}, hf);
    const json = await parsed((request, bytes) =>
      Object.assign(request, { body: JSON.parse(`${bytes}`) }),
    )(hook);
    expect(await send(json)).toMatchObject({ status: 500, text: /express\.json\(\), has read it/ });
    const request = new Request(url, { method: 'POST', body: BODY });
    await request.text();
    expect((await hook.fetch(request)).status).toBe(500);
    expect(logger.lines).toMatchObject([{ level: 'error', facts: { status: 500 } }]);
  });
});

test('a Request of fetch is answered alike', async () => {
  const { hook } = await hooks('fetched');
  const request = (secret: string) =>
    new Request('https://shop.example/hooks', {
      ...{ method: 'POST', body: BODY },
      headers: signers.standardWebhooks({ secret, body: BODY, id: 'evt_1' }),
    });
  expect((await hook.fetch(request(SECRET))).status).toBe(200);
  expect((await hook.fetch(request(whsec('other')))).status).toBe(401);
  const torn = new ReadableStream({ pull: (controller) => controller.error(new Error('reset')) });
  const init = { method: 'POST', body: torn, duplex: 'half' } as RequestInit;
  expect((await hook.fetch(new Request('https://shop.example/hooks', init))).status).toBe(400);
  expect(await jobsOf('fetched')).toHaveLength(1);
});

test('what cannot be meant is refused when it is declared', () => {
  const verify = standardWebhooks(SECRET);
  const make = (options: object, hf: unknown = db.hf) =>
    receive(hf as never, job('x'), options as never);
  expect(() => make({})).toThrow(/needs verify/);
  expect(() => make({ verify, maxByte: 1 })).toThrow(/Did you mean "maxBytes"/);
  expect(() => make({ verify, timeout: '1h' })).toThrow(/timeout of receive\(\) is out of range/);
  expect(() => make({ verify, as: 'xml' })).toThrow(/'json' or 'text'/);
  expect(() => make({ verify, headers: ['a b'] })).toThrow(/is no name/);
  expect(() => make({ verify, within: 'x' })).toThrow(/within of receive\(\) must be a function/);
  expect(() => make({ verify }, {})).toThrow(/what holdfast\(\) returned/);
});
