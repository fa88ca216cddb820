/**
 * A secret goes through the whole system: in payloads, headers, keys, and in the errors of handlers. It
 * may be seen by handlers and stand in the job's row. It must not come out anywhere else: not in logs,
 * metrics, traces, notifications or errors, nor in what the command prints when something is wrong. The one
 * exception: a handler that puts it into its own error has it in the log line of its failure, and in the event.
 */
import { readFileSync } from 'node:fs';
import { inspect } from 'node:util';
import * as telemetry from '@opentelemetry/api';
import pg from 'pg';
import * as v from 'valibot';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import * as z from 'zod';
import { channelOf } from '../../packages/holdfast/src/fleet/wake.js';
import { holdfast, job, type WorkerEvent } from '../../packages/holdfast/src/index.js';
import { collectMetrics } from '../../packages/holdfast/src/metrics/index.js';
import { call, run } from '../support/cli-run.js';
import { INBOX, testDatabase } from '../support/database.js';
import { type Line, recordingLogger } from '../support/logger.js';
import { telemetryInMemory } from '../support/telemetry.js';
import { until } from '../support/until.js';

const SECRET = 'canary-4d1f9c7e';
const db = testDatabase();
const spans = telemetryInMemory();

/** Everything that the text, the keys or the values of something hold, to any depth. */
const everythingIn = (value: unknown) =>
  inspect(value, { depth: 20, maxArrayLength: 10_000, maxStringLength: 1_000_000 });

interface Heard {
  readonly lines: Line[];
  readonly events: WorkerEvent[];
  readonly notifications: string[];
  readonly scrape: string;
  readonly spans: string;
}

/** Listens to what the fleet is told. */
async function wiretap(channels: readonly string[]): Promise<string[]> {
  const heard: string[] = [];
  const client = new pg.Client({ connectionString: db.url });
  await client.connect();
  onTestFinished(() => client.end());
  client.on('notification', ({ channel, payload }) => void heard.push(`${channel} ${payload}`));
  for (const channel of channels) await client.query(`LISTEN "${channel}"`);
  return heard;
}

const plain = job<{ card: string }>('canary_plain');
const failing = job<{ card: string }>('canary_failing', { maxAttempts: 2, retry: () => 0 });
const strict = job('canary_strict', { schema: z.object({ card: z.string(), amount: z.number() }) });
const parent = job<{ card: string }>('canary_parent');
const once = job<{ card: string }>('canary_once');
const lost = job<{ card: string }>('canary_lost');

/** Runs every kind of ending with the secret inside, and keeps all that the system says. */
async function live(): Promise<Heard> {
  const logger = recordingLogger();
  const events: WorkerEvent[] = [];
  const hf = holdfast({ connectionString: db.url, logger, telemetry });
  onTestFinished(() => hf.close());
  const metrics = collectMetrics(hf);
  const worker = hf.worker({
    handleSignals: false,
    poll: '20ms',
    onEvent: (event) => void events.push(event),
  });
  const channels = ['holdfast_fleet', await channelOf(db.engine, INBOX)];
  const notifications = await wiretap(channels);
  const seen: string[] = [];
  worker
    .handle(plain, ({ payload }) => void seen.push(payload.card))
    .handle(failing, ({ payload, headers }) => {
      seen.push(payload.card);
      throw new Error(`${payload.card} was refused with ${headers.token}`, { cause: SECRET });
    })
    .handle(strict, () => undefined)
    .handle(parent, (ctx) => ctx.enqueue(plain, ctx.payload, { headers: { token: SECRET } }))
    .handle(once, (ctx) => ctx.once('mail', () => SECRET))
    .handle(lost, async ({ id }) => {
      await db.rows(`UPDATE holdfast.inbox SET lease_generation = lease_generation + 1
        WHERE id = '${id}'`);
    });
  const running = worker.run();
  const send = { partitionKey: SECRET, headers: { token: SECRET } };
  for (const definition of [plain, failing, parent, once, lost]) {
    await hf.enqueue(definition, { card: SECRET }, send);
  }
  await hf.enqueue(plain, { card: SECRET }, { idempotencyKey: SECRET });
  // Straight into the table, past every check, as a producer in another language might.
  await db.rows(
    `SELECT holdfast.inbox_enqueue('canary_strict', '{"card": 7, "amount": "${SECRET}"}')`,
  );
  await until('all of them have ended', () => {
    const ends = events.filter((event) => /^(completed|dead_letter|lost)$/.test(event.kind));
    return ends.length >= 8;
  });
  await worker.stop();
  await running;
  expect(seen).toContain(SECRET);
  // What a handler's own error says is logged and told: the words are the handler's.
  const words = logger.lines.filter(({ facts }) => JSON.stringify(facts).includes(SECRET));
  expect(words.map(({ message }) => message)).toEqual([
    'an attempt failed',
    'a job became a dead letter',
  ]);
  const own = (one: object) => 'type' in one && one.type === failing.type;
  return {
    lines: logger.lines.map((line) =>
      own(line.facts) ? { ...line, facts: { ...line.facts, err: 'its own' } } : line,
    ),
    events: events.map((event) => (own(event) ? ({ ...event, error: 'its own' } as never) : event)),
    notifications,
    scrape: await metrics.text(),
    spans: everythingIn(
      spans.all().map(({ name, attributes, events: told, links, status, resource }) => {
        return { name, attributes, told, links, status, resource };
      }),
    ),
  };
}

test('neither logs, events, metrics, traces nor notifications let it out', async () => {
  const heard = await live();
  // It did go through, and is where it belongs.
  const rows = await db.rows<{ row: string }>(`SELECT i::text AS row FROM holdfast.inbox AS i
    UNION ALL SELECT a::text FROM holdfast.inbox_archive AS a`);
  expect(rows.filter(({ row }) => row.includes(SECRET)).length).toBeGreaterThan(4);
  // Each of them had something to say.
  expect(heard.lines.length).toBeGreaterThan(0);
  expect(heard.scrape).toMatch(
    /holdfast_jobs_dead_lettered_total\{queue="inbox",type="canary_failing"\} 1/,
  );
  expect(heard.spans).toContain('process inbox');
  expect(heard.notifications.filter((one) => !one.startsWith('holdfast_fleet'))).not.toEqual([]);
  for (const [what, text] of Object.entries(heard)) {
    expect({ [what]: everythingIn(text).includes(SECRET) }).toEqual({ [what]: false });
  }
});

test('no notification of the schema is made of more than names and numbers', () => {
  const schema = readFileSync(
    new URL('../../packages/holdfast/schema.sql', import.meta.url),
    'utf8',
  );
  const calls = [...schema.matchAll(/pg_notify\(([^;]*)\);/g)].map(([, call]) => call as string);
  for (const call of calls) {
    expect(call).not.toMatch(/payload|headers|partition_key|idempotency_key|last_error/);
  }
});

describe('errors that refuse a job', () => {
  const amount = z.object({ amount: z.number() });
  const valibot = v.object({ card: v.object({ number: v.number(), code: v.literal('x') }) });
  const big = { connectionString: '', maxPayloadBytes: 50 };

  test.each<[string, () => Promise<unknown>]>([
    [
      'a payload that zod refuses',
      () => db.hf.enqueue(job('z', { schema: amount }), { amount: SECRET } as never),
    ],
    [
      'a payload that valibot refuses, which quotes what it got',
      () =>
        db.hf.enqueue(job('v', { schema: valibot }), {
          card: { number: SECRET, code: SECRET },
        } as never),
    ],
    [
      'a payload that is no JSON',
      () => db.hf.enqueue(job('j'), { card: SECRET, big: 10n } as never),
    ],
    [
      'a payload that is too large',
      async () => {
        const hf = holdfast({ ...big, connectionString: db.url });
        await hf.enqueue(job('l'), { card: SECRET.repeat(10) }).finally(() => hf.close());
      },
    ],
    [
      'a header that is too long',
      () => db.hf.enqueue(job('h'), {}, { headers: { token: SECRET.repeat(100) } }),
    ],
    [
      'a header that is no text',
      () => db.hf.enqueue(job('h'), {}, { headers: { token: [SECRET] as never } }),
    ],
    ['headers that are no object', () => db.hf.enqueue(job('h'), {}, { headers: SECRET as never })],
    [
      'a header that Postgres cannot store',
      () => db.hf.enqueue(job('h'), {}, { headers: { token: `${SECRET}\0` } }),
    ],
  ])('%s', async (_, refuse) => {
    const error = await refuse().then(
      () => null,
      (refusal: unknown) => refusal,
    );
    expect(error).toBeInstanceOf(Error);
    expect(everythingIn(error)).not.toContain(SECRET);
  });
});

describe('the command', () => {
  let id: string;
  beforeAll(async () => {
    const headers = { token: SECRET };
    id = (await db.hf.enqueue(plain, { card: SECRET }, { partitionKey: 'order:9182', headers })).id;
  });

  test.each([
    [['migrate']],
    [['queues', 'create', 'inbox']],
    [['status']],
    [['doctor']],
    [['jobs', 'ls', '--status', 'nonsense']],
    [['jobs', 'retry', 'ID', '--yes']],
    [['explain', 'ID']],
    [['explain', 'not-an-id']],
    [['enqueue', 'canary_plain', `{"card": "${SECRET}"`]],
    [['enqueue', 'canary_plain', '{}', '--header', SECRET]],
    [['enqueue', 'canary_plain', '{}', SECRET]],
    [['enqueue', '--nonsense', `{"card": "${SECRET}"}`]],
  ])('says nothing of it on stderr: %s', async (words) => {
    const args = words.map((word) => (word === 'ID' ? id : word));
    const { err } = await call([...args, '--url', db.url]);
    expect(err).not.toContain(SECRET);
  });

  test('keeps the password of the database to itself when it cannot connect', async () => {
    for (const address of [
      `postgres://app:${SECRET}@127.0.0.1:1/shop`,
      `postgres://app:${SECRET}@no-such-host.invalid/shop`,
      `postgres://app:${SECRET}@${new URL(db.url).host}/shop`,
      `postgres://app:${SECRET}@127.0.0.1:not-a-port/shop`,
    ]) {
      const { code, err } = await call(['migrate', '--url', address]);
      expect(code).not.toBe(0);
      expect(err).not.toContain(SECRET);
    }
  });

  test('lets nothing out of its process by itself', async () => {
    for (const args of [
      ['enqueue', 'canary_plain', `{"card": "${SECRET}"`, '--url', db.url],
      ['migrate', '--url', `postgres://app:${SECRET}@127.0.0.1:1/shop`],
    ]) {
      const { code, err } = await run(args);
      expect(code).not.toBe(0);
      expect(err).not.toContain(SECRET);
    }
  });
});
