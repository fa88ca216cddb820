/** A value that an option cannot have is refused, with what is wrong and what was not done. */
import pg from 'pg';
import { expect, test } from 'vitest';
import { holdfast, job } from '../../packages/holdfast/src/index.js';

const connectionString = 'postgres://nobody@127.0.0.1:1/nowhere';
const hf = holdfast({ connectionString });
const receipt = job<object>('receipt');
const ID = '01890000-0000-7000-8000-000000000000';
/** What a JavaScript caller may pass. */
const any = (value: unknown) => value as never;
const made = (options: object) => () => holdfast({ connectionString, ...options });

type Call = [string, () => unknown, RegExp];

const CALLS: Call[] = [
  [
    'prepare',
    made({ prepare: 'no' }),
    /prepare must be true or false, not "no"\. Nothing was made/,
  ],
  ['pooler', made({ pooler: 'pgbouncer' }), /pooler must be true or false, not "pgbouncer"/],
  ['ssl', made({ connection: { ssl: null } }), /connection\.ssl is null: write false/],
  [
    'connection',
    made({ connection: 'postgres://' }),
    /connection must be an object as pg takes it/,
  ],
  ['pool', made({ pool: connectionString }), /pool must be a pool of pg, not "postgres:/],
  [
    'queues',
    () => hf.worker({ queues: any('mail') }),
    /list of names, not "mail": write queues: \[/,
  ],
  ['notify', () => hf.worker({ notify: any(null) }), /notify must be true or false, not null/],
  [
    'handle',
    () => hf.worker().handle(any('receipt'), () => 1),
    /made with job\('…'\), not "receipt"/,
  ],
  [
    'handler',
    () => hf.worker().handle(receipt, any(undefined)),
    /"receipt" must be a function, not undefined/,
  ],
  [
    'onMismatch',
    () => hf.enqueue(receipt, {}, { onMismatch: any('ignore') }),
    /onMismatch must be 'error' or 'existing', not "ignore"\. Nothing was enqueued/,
  ],
  ['onMismatch', () => hf.enqueueMany([], { onMismatch: any('') }), /onMismatch must be/],
  ['enqueue', () => hf.enqueue(any('receipt'), {}), /first argument of enqueue\(\).*not "receipt"/],
  ['items', () => hf.enqueueMany(any(receipt.item({}))), /takes a list of items, not an object/],
  [
    'an item',
    () => hf.enqueueMany([any(null)]),
    /items\[0\] is null, and no item.*job\.item\(payload\)/,
  ],
  [
    'the job of an item',
    () => hf.enqueueMany([receipt.item({}), any({ job: 'receipt', payload: {} })]),
    /items\[1\]\.job must be a definition.*not "receipt"\. Nothing was enqueued/,
  ],
  [
    'an option in an item',
    () => hf.enqueueMany([any({ job: receipt, payload: {}, delay: 5 })]),
    /items\[0\] has no option "delay"/,
  ],
  [
    'the options of an item',
    () => hf.enqueueMany([any({ job: receipt, payload: {}, options: { delays: 5 } })]),
    /items\[0\]\.options has no option "delays".*"delay"/,
  ],
  [
    'order',
    () => hf.jobs({ order: any('oldset') }),
    /order must be 'newest' or 'oldest', not "oldset"/,
  ],
  ['all', () => hf.workers({ all: any('yes') }), /all must be true or false, not "yes"/],
  [
    'dryRun',
    () => hf.archive.replay('all', { dryRun: any('yes') }),
    /dryRun must be true or false/,
  ],
  [
    'completed',
    () => hf.archive.replay('all', { completed: any(1) }),
    /completed must be true or false, not 1/,
  ],
  ['audit', () => hf.cancel([ID], { audit: any('no') }), /audit must be true or false, not "no"/],
  [
    'notify',
    () => hf.configureQueue('inbox', { notify: any('off') }),
    /notify must be.*not "off"\. Nothing was set/,
  ],
  ...[0, -5, 1.5, Number.NaN, 20_000_000, any('many')].map(
    (maxPending): Call => [
      `maxPending ${maxPending}`,
      () => hf.configureQueue('inbox', { maxPending }),
      /maxPending, unless it is 'off', must be a whole number from 1 to 10000000/,
    ],
  ),
  [
    'a rate that no double can hold',
    () => hf.configureQueue('inbox', { limit: { rate: { limit: 1e308, per: 1e-308 } } }),
    /limit\.rate\.limit must be a whole number from 1 to 1,000,000, not 1e\+308\. Nothing was set/,
  ],
  [
    'a rate of less than nothing',
    () => hf.limits.set({ type: 'a' }, { rate: { limit: -1, per: '1s' } }),
    /limit\.rate\.limit must be a whole number/,
  ],
  [
    'a queue that is limited to nothing',
    () => hf.createQueue('a', { limit: { concurrency: 0 } }),
    /limit\.concurrency must be a whole number from 1 to 1,000,000, not 0/,
  ],
  ...['type', 'key'].map(
    (part): Call => [
      `a ${part} to pause that was lost on its way`,
      () => hf.pause('inbox', { [part]: undefined }),
      /was given and is undefined, so this would be about the whole queue; nothing was done/,
    ],
  ),
  [
    'a type to limit that was lost on its way',
    () => hf.limits.set({ type: any(undefined) }, { concurrency: 1 }),
    /type was given and is undefined/,
  ],
  ['nothing to limit', () => hf.limits.set(any(undefined), null), /must be an object/],
  ['settings of a queue', () => hf.createQueue('a', any(5)), /must be an object, not 5\. No queue/],
  [
    'no settings of a queue',
    () => hf.createQueue('a', any(null)),
    /must be an object, not null\. No queue/,
  ],
  [
    'a setting that createQueue has not',
    () => hf.createQueue('a', any({ maxPending: 5 })),
    /has no option "maxPending"\. It has .*, onDeadLetter\. No queue was made/,
  ],
  ['paused', () => hf.schedules.list({ paused: any('x') }), /paused must be true or false/],
  [
    'a limit that says nothing',
    () => job('x', { limit: {} }),
    /a limit has a concurrency, a rate, or both/,
  ],
];

test.each(CALLS)('%s', async (_, call, message) => {
  const refused = (async () => call())();
  await expect(refused).rejects.toThrow(message);
  await expect(refused).rejects.toMatchObject({ code: 'OPTION_INVALID' });
});

test('a pool whose ssl is null works, as it does in pg', () => {
  const pool = new pg.Pool({ connectionString, ssl: any(null) });
  expect(() => holdfast({ pool }).worker()).not.toThrow();
});
