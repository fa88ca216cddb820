/** An option that does not exist is refused, wherever options are taken, with what may have been meant. */
import { outbox, relay } from 'holdfast/outbox';
import { httpSink } from 'holdfast/outbox/http';
import { eventLog, projection } from 'holdfast/projections';
import { receive, stripe } from 'holdfast/receive';
import { webhooks } from 'holdfast/webhooks';
import { expect, test } from 'vitest';
import { dashboard, serveDashboard } from '../../packages/dashboard/src/index.js';
import { startEmbedded } from '../../packages/embedded/src/index.js';
import { type Holdfast, holdfast, job, workflow } from '../../packages/holdfast/src/index.js';
import { collectMetrics } from '../../packages/holdfast/src/metrics/index.js';
import {
  drain,
  expectEnqueued,
  makeJob,
  startPglite,
  survivesFaults,
  testJob,
} from '../../packages/testing/src/index.js';
import { testDatabase } from '../support/database.js';

const db = testDatabase();
const connectionString = 'postgres://nobody@127.0.0.1:1/nowhere';
const hf = holdfast({ connectionString });
const receipt = job<object>('receipt');
const ID = '01890000-0000-7000-8000-000000000000';
const checkout = workflow('checkout');
const sink = { name: 'memory', publish: async () => undefined };
const handler = () => undefined;
/** What a JavaScript caller may pass. */
const any = (options: object) => options as never;

const CALLS: [string, () => unknown, RegExp][] = [
  ['holdfast()', () => holdfast(any({ conectionString: 'x' })), /Did you mean "connectionString"/],
  ['worker()', () => hf.worker(any({ concurency: 50 })), /worker\(\).*"concurency".*"concurrency"/],
  ['worker.stop()', () => hf.worker().stop(any({ graceMs: 5 })), /"graceMs".*It has grace\./],
  ['job()', () => job('x', any({ maxAttempt: 3 })), /"maxAttempt".*Did you mean "maxAttempts"/],
  ['job() retry', () => job('x', any({ retry: { bas: 3 } })), /retry.*"bas".*Did you mean "base"/],
  ['job.item()', () => receipt.item({}, any({ prioriy: 1 })), /"prioriy".*Did you mean "priority"/],
  ['enqueue()', () => hf.enqueue(receipt, {}, any({ delays: 1 })), /Did you mean "delay"/],
  ['enqueue()', () => hf.enqueue(receipt, {}, any({ onMissmatch: 1 })), /"onMismatch"/],
  [
    'enqueueMany()',
    () => hf.enqueueMany([receipt.item({})], any({ trx: 1 })),
    /enqueueMany\(\).*"trx".*"tx"/,
  ],
  ['dashboard()', () => dashboard(hf, any({ tokn: 'x' })), /dashboard\(\).*Did you mean "token"/],
  ['serveDashboard()', () => serveDashboard(hf, any({ prt: 1 })), /Did you mean "port"/],
  ['createQueue()', () => db.hf.createQueue('a', any({ order: 'key' })), /"order".*"ordering"/],
  [
    'configureQueue()',
    () => hf.configureQueue('inbox', any({ archiveRetentions: 1 })),
    /Did you mean "archiveRetention"/,
  ],
  ['jobs()', () => hf.jobs(any({ filters: {} })), /Did you mean "filter"/],
  ['job()', () => hf.job(ID, any({ qeue: 'a' })), /Did you mean "queue"/],
  ['workers()', () => hf.workers(any({ al: true })), /Did you mean "all"/],
  ['retry()', () => hf.retry([ID], any({ qeue: 'a' })), /Did you mean "queue"/],
  ['cancel()', () => hf.cancel([ID], any({ reasn: 'a' })), /Did you mean "reason"/],
  ['update()', () => hf.update(ID, { priority: 1 }, any({ qeue: 'a' })), /Did you mean "queue"/],
  ['wait()', () => hf.wait(ID, any({ timeouts: 1 })), /Did you mean "timeout"/],
  ['deadLetters.list()', () => hf.deadLetters.list(any({ limt: 1 })), /Did you mean "limit"/],
  [
    'deadLetters.groups()',
    () => hf.deadLetters.groups(any({ filte: {} })),
    /Did you mean "filter"/,
  ],
  ['deadLetters.retry()', () => hf.deadLetters.retry('all', any({ qeue: 'a' })), /"queue"/],
  ['deadLetters.discard()', () => hf.deadLetters.discard('all', any({ qeue: 'a' })), /"queue"/],
  [
    'schedule()',
    () => hf.schedule('a', any({ cron: '@daily', job: receipt, payload: {}, timeZone: 'UTC' })),
    /"timeZone".*Did you mean "timezone"/,
  ],
  [
    'handleMany()',
    () => hf.worker().handleMany(receipt, any({ maxx: 3 }), handler),
    /handleMany\(\).*"maxx".*"max"/,
  ],
  ['job() limit', () => job('x', any({ limit: { concurency: 1 } })), /"concurency".*"concurrency"/],
  [
    'job() unique',
    () => job('x', any({ unique: { by: () => 'k', onConflicts: 'later' } })),
    /unique.*Did you mean "onConflict"/,
  ],
  [
    'enqueue() unique',
    () => hf.enqueue(receipt, {}, any({ unique: { key: 'k', windows: '1m' } })),
    /unique.*Did you mean "window"/,
  ],
  [
    'createQueue() limit',
    () => db.hf.createQueue('a', any({ limit: { rates: {} } })),
    /limit.*"rates".*"rate"/,
  ],
  [
    'limits.set() rate',
    () => hf.limits.set({ type: 'a' }, any({ rate: { limit: 1, per: '1s', bursts: 2 } })),
    /rate.*"bursts".*"burst"/,
  ],
  ['limits.list()', () => hf.limits.list(any({ queu: 'a' })), /"queu".*"queue"/],
  ['limits.set()', () => hf.limits.set(any({ typ: 'a' }), null), /"typ".*"type"/],
  ['schedules.declare()', () => hf.schedules.declare('a', {}, any({ trx: 1 })), /"trx".*"tx"/],
  ['schedules.list()', () => hf.schedules.list(any({ prefx: '' })), /Did you mean "prefix"/],
  ['schedules.pause()', () => hf.schedules.pause('a', any({ trx: 1 })), /"trx".*"tx"/],
  ['collectMetrics()', () => collectMetrics(hf, any({ fresh: 1 })), /Did you mean "freshFor"/],
  ['startEmbedded()', () => startEmbedded(any({ throwAway: true })), /Did you mean "throwaway"/],
  ['startPglite()', () => startPglite(any({ shema: 'a' })), /Did you mean "schema"/],
  ['testJob()', () => testJob(receipt, handler, {}, any({ atempt: 2 })), /Did you mean "attempt"/],
  ['makeJob()', () => makeJob('pending', receipt, {}, any({ reasn: '' })), /Did you mean "reason"/],
  [
    'survivesFaults()',
    () => survivesFaults(receipt, handler, {}, any({ effects: () => 0 })),
    /Did you mean "effect"/,
  ],
  ['drain()', () => drain(hf, any({ worker: hf.worker(), queues: 'a' })), /Did you mean "queue"/],
  ['outbox()', () => outbox(hf, any({ retain: '7d' })), /outbox\(\).*"retain".*It has queue/],
  ['publish()', () => outbox(hf).publish(any({ type: 'a', keys: 'k', data: 1 })), /"key"/],
  ['events.replay()', () => outbox(hf).replay(any({ form: new Date() })), /Did you mean "from"/],
  ['relay()', () => relay(hf.worker(), outbox(hf), sink, any({ maxWaits: 1 })), /"maxWait"/],
  ['httpSink()', () => httpSink(any({ ulr: 'https://a.example' })), /Did you mean "url"/],
  ['webhooks()', () => webhooks(hf, any({ timout: '1s' })), /Did you mean "timeout"/],
  ['send()', () => webhooks(hf).send(any({ tenant: 'a', typ: 'b' })), /Did you mean "type"/],
  [
    'endpoints.create()',
    () => webhooks(hf).endpoints.create(any({ tenant: 'a', urls: 'https://a.example' })),
    /Did you mean "url"/,
  ],
  ['receive()', () => receive(hf, receipt as never, any({ verfy: 1 })), /Did you mean "verify"/],
  ['stripe()', () => stripe('secret', any({ tolerence: '5m' })), /Did you mean "tolerance"/],
  ['eventLog()', () => eventLog(hf, 'a', any({ retntion: '1d' })), /Did you mean "retention"/],
  ['append()', () => eventLog(hf, 'a').append([any({ typ: 'a' })]), /Did you mean "type"/],
  ['projection()', () => projection('a', any({ shard: 2 })), /Did you mean "shards"/],
  ['workflow()', () => workflow('a', any({ signal: ['a'] })), /workflow\("a"\).*"signals"/],
  ['signal()', () => hf.signal(checkout, ID, 'a', 1, any({ kee: 'a' })), /Did you mean "key"/],
  ['runs()', () => hf.runs(any({ workflows: 'a' })), /Did you mean "workflow"/],
  ['expectEnqueued()', () => expectEnqueued({}, any({ tz: 1 })), /"tz".*Did you mean "tx"/],
];

test.each(CALLS)('%s refuses an option that does not exist', async (_, call, message) => {
  const made = (async () => call())();
  await expect(made).rejects.toThrow(message);
  await expect(made).rejects.toMatchObject({
    code: expect.stringMatching(/^(OPTION_INVALID|invalid_option)$/),
  });
});

test('an option without a near name gets the list; one that is undefined is as good as left out', () => {
  expect(() => hf.worker(any({ threads: 4 }))).toThrow(
    /has no option "threads"\. It has queues, concurrency, .*\. The worker was not made\./,
  );
  const exact = { concurrency: undefined } as unknown as Parameters<Holdfast['worker']>[0];
  expect(() => hf.worker(exact)).not.toThrow();
});

test('options that are no object are refused', () => {
  expect(() => hf.worker(50 as never)).toThrow(/must be an object, not 50/);
  expect(() => hf.worker(null as never)).toThrow(/must be an object, not null/);
  expect(() => receipt.item({}, ['order:1'] as never)).toThrow(/must be an object, not an array/);
});
