/** The commands about queues and workers. */
import type { Command, Options } from '../../command.js';
import { ASKING, QUEUE, REASON } from '../../parse/shared-options.js';
import { TURNS } from '../../parse/turn-options.js';

const ORDER: Options = {
  ordering: {
    type: 'string',
    value: 'key',
    help: 'jobs of one key run one after the other; default none: the oldest due job first',
  },
  'dead-letters': {
    type: 'string',
    value: 'hold',
    help: 'with ordering: a dead letter holds its key until somebody acts; default free',
  },
};

const time = (help: string): Options[string] => ({ type: 'string', value: 'TIME', help });

const SETTINGS: Options = {
  'archive-retention': time('how long finished jobs are kept; 0: completed ones are not'),
  'idempotency-retention': time('how long an idempotency key stands'),
  'effect-retention': time('how long what was done under ctx.once is known'),
  'audit-retention': time('how long the audit keeps acts on this queue'),
  'age-after': {
    ...{ type: 'string', value: 'TIME|off' },
    help: 'how long a job waits for more urgent ones before it gets a share of the claims',
  },
  'max-pending': {
    ...{ type: 'string', value: 'N|off' },
    help: 'enqueues are refused while about so many jobs wait',
  },
  'max-payload-bytes': { type: 'string', value: 'N', help: 'for enqueues in SQL' },
  notify: { type: 'string', value: 'on|off', help: 'whether an insert wakes workers that sleep' },
  ordering: { type: 'string', value: 'key|none', help: 'only while the queue is empty' },
  'dead-letters': { type: 'string', value: 'hold|free', help: 'with --ordering key' },
};

const PART: Options = {
  type: { type: 'string', value: 'TYPE', help: 'only the jobs of this type' },
  'partition-key': { type: 'string', value: 'KEY', help: 'only the jobs of this partition key' },
};

export const QUEUE_COMMANDS: readonly Command[] = [
  {
    words: ['queues', 'ls'],
    summary: 'list queues with their counts',
    needs: 'schema',
    load: async () => (await import('./queues.js')).runList,
  },
  {
    words: ['queues', 'create'],
    args: 'NAME',
    summary: 'create another queue of the same shape as inbox',
    options: { ...ORDER, ...TURNS, ...REASON },
    needs: 'schema',
    load: async () => (await import('./queues.js')).runCreate,
  },
  {
    words: ['queues', 'set'],
    args: 'NAME',
    summary: 'show what is set on a queue, or set it',
    detail: 'Without a setting it shows them. All of them are set in one transaction, or none.',
    options: { ...SETTINGS, ...TURNS, ...REASON },
    needs: 'schema',
    load: async () => (await import('./queue-settings.js')).runSet,
  },
  {
    words: ['queues', 'drop'],
    args: 'NAME',
    summary: 'drop an empty queue, with its archive',
    detail:
      'Refused while a job is in it, in whatever state, or while a worker serves it. It says how many finished\n' +
      'jobs, idempotency keys and effect markers go with it, and asks.',
    options: { ...ASKING, ...REASON },
    needs: 'schema',
    load: async () => (await import('./queue-settings.js')).runDrop,
  },
  {
    words: ['queues', 'pause'],
    args: 'NAME',
    summary: 'take jobs, but let none be claimed',
    options: { ...PART, ...REASON },
    needs: 'schema',
    load: async () => (await import('./queues.js')).runPause,
  },
  {
    words: ['queues', 'resume'],
    args: 'NAME',
    summary: 'let jobs be claimed again',
    options: { ...PART, ...REASON },
    needs: 'schema',
    load: async () => (await import('./queues.js')).runResume,
  },
  {
    words: ['workers', 'ls'],
    summary: 'list workers, when they were last seen and what they hold',
    options: {
      all: { type: 'boolean', help: 'those of the last week that left or vanished as well' },
    },
    needs: 'schema',
    load: async () => (await import('./workers.js')).runList,
  },
  {
    words: ['workers', 'drain'],
    args: 'ID',
    summary: 'ask a worker to finish what it holds and end, with exit code 0',
    options: REASON,
    needs: 'schema',
    load: async () => (await import('./workers.js')).runDrain,
  },
  {
    words: ['ring'],
    args: '[--partition-key KEY]',
    summary: 'which worker comes first for which keys, in queues that are read by key',
    options: {
      'partition-key': {
        type: 'string',
        value: 'KEY',
        help: 'only for this key, in one line a queue',
      },
      ...QUEUE,
    },
    needs: 'schema',
    load: async () => (await import('./ring.js')).run,
  },
];
