/** Every command of `holdfast`, in the order of the help. */

import type { Command } from './command.js';
import { ARCHIVE_COMMANDS } from './commands/archive/archive-commands.js';
import { IMPORT_COMMANDS } from './commands/import/import-commands.js';
import { LIMIT_COMMANDS } from './commands/limits/limit-commands.js';
import { QUEUE_COMMANDS } from './commands/queues/queue-commands.js';
import { SCHEDULE_COMMANDS } from './commands/schedules/schedule-commands.js';
import { FILTERS, STATUS } from './parse/filters.js';
import { ACT, BULK, LIST, QUEUE, REASON } from './parse/shared-options.js';

export const COMMANDS: readonly Command[] = [
  {
    words: ['init'],
    args: '[FOLDER]',
    summary: 'write a commented configuration and a first handler that run as they are',
    options: {
      js: { type: 'boolean', help: 'JavaScript (.mjs)' },
      ts: { type: 'boolean', help: 'TypeScript (.mts); default where this Node runs it' },
    },
    needs: 'nothing',
    load: async () => (await import('./commands/setup/init.js')).run,
  },
  {
    words: ['migrate'],
    args: '[--status | --sql]',
    summary: 'bring the schema to this version',
    options: {
      status: { type: 'boolean', help: 'only tell what is applied' },
      sql: { type: 'boolean', help: 'print what would run, and run nothing' },
    },
    needs: 'database',
    load: async () => (await import('./commands/setup/migrate.js')).run,
  },
  {
    words: ['work'],
    summary: 'run a worker with the handlers of holdfast.config',
    options: {
      config: {
        type: 'string',
        value: 'FILE',
        help: 'default: holdfast.config.{ts,mts,mjs,js} here',
      },
      concurrency: { type: 'string', value: 'N', help: 'so many handlers at once' },
      ...QUEUE,
    },
    needs: 'nothing',
    onInterrupt: 'own',
    load: async () => (await import('./commands/setup/work.js')).run,
  },
  {
    words: ['enqueue'],
    args: 'TYPE [PAYLOAD | -]',
    summary: 'enqueue one job; the payload is JSON, or - for stdin',
    detail:
      'With --lines every line of stdin is the payload of a job: all of them in one transaction, in their order.\n' +
      'Jobs of one --partition-key run in that order in a queue that is read by key.',
    options: {
      lines: { type: 'boolean', help: 'a job for every line of stdin, in their order, or none' },
      queue: { type: 'string', value: 'NAME', help: 'default inbox' },
      'partition-key': {
        type: 'string',
        value: 'KEY',
        help: 'the stream that it belongs to; default: one of its own',
      },
      group: { type: 'string', value: 'GROUP', help: 'its group, where keys take turns' },
      'idempotency-key': { type: 'string', value: 'KEY', help: 'the same key is one job' },
      unique: {
        ...{ type: 'string', value: 'KEY' },
        help: 'one job of this type for the key, as long as one waits',
      },
      while: { type: 'string', value: 'pending|running|kept', help: 'how long that one stands' },
      window: {
        type: 'string',
        value: 'TIME',
        help: 'with --while kept: until so long after the enqueue',
      },
      'on-conflict': { type: 'string', value: 'ignore|replace|later', help: 'what then happens' },
      delay: { type: 'string', value: 'TIME', help: 'due so much later, such as 10m' },
      'run-at': { type: 'string', value: 'WHEN', help: 'due then, in ISO 8601' },
      priority: { type: 'string', value: 'N', help: '1 (first) to 4 (last); default 2' },
      'max-attempts': { type: 'string', value: 'N', help: 'default 5' },
      'job-version': { type: 'string', value: 'N', help: 'the version of the payload; default 1' },
      header: { type: 'string', multiple: true, value: 'NAME=VALUE', help: 'may be repeated' },
    },
    needs: 'schema',
    load: async () => (await import('./commands/jobs/enqueue.js')).run,
  },
  {
    words: ['status'],
    summary: 'every queue and the workers at a glance',
    options: QUEUE,
    needs: 'schema',
    load: async () => (await import('./commands/queues/status.js')).run,
  },
  {
    words: ['jobs', 'ls'],
    summary: 'list jobs, the newest first',
    options: {
      ...STATUS,
      ...FILTERS,
      ...LIST,
      oldest: { type: 'boolean', help: 'the oldest first' },
    },
    needs: 'schema',
    load: async () => (await import('./commands/jobs/list.js')).run,
  },
  {
    words: ['jobs', 'show'],
    args: 'ID',
    summary: 'all that is known of one job',
    options: {
      payload: { type: 'boolean', help: 'its payload and its result as well' },
      ...QUEUE,
    },
    needs: 'schema',
    load: async () => (await import('./commands/jobs/show.js')).run,
  },
  {
    words: ['jobs', 'retry'],
    args: '[ID...]',
    summary: 'dead letters run again, with all their attempts',
    detail: BULK,
    options: { ...FILTERS, ...ACT },
    needs: 'schema',
    onInterrupt: 'finish',
    load: async () => (await import('./commands/jobs/act.js')).runRetry,
  },
  {
    words: ['jobs', 'discard'],
    args: '[ID...]',
    summary: 'dead letters go to the archive',
    detail: BULK,
    options: { ...FILTERS, ...ACT },
    needs: 'schema',
    onInterrupt: 'finish',
    load: async () => (await import('./commands/jobs/act.js')).runDiscard,
  },
  {
    words: ['jobs', 'cancel'],
    args: '[ID...]',
    summary: 'jobs that wait or run go to the archive as cancelled',
    detail: `${BULK}\nThe handler of a running one is aborted at its next renewal; nothing that it settles counts.`,
    options: { ...STATUS, ...FILTERS, ...ACT },
    needs: 'schema',
    onInterrupt: 'finish',
    load: async () => (await import('./commands/jobs/act.js')).runCancel,
  },
  {
    words: ['jobs', 'update'],
    args: 'ID',
    summary: 'change a job that waits',
    options: {
      payload: { type: 'string', value: 'JSON', help: 'another payload; - for stdin' },
      priority: { type: 'string', value: 'N', help: '1 (first) to 4 (last)' },
      delay: { type: 'string', value: 'TIME', help: 'due so much from now; 0s: at once' },
      'run-at': { type: 'string', value: 'WHEN', help: 'due then, in ISO 8601' },
      queue: { type: 'string', value: 'NAME', help: 'default: where it is found' },
      ...REASON,
    },
    needs: 'schema',
    load: async () => (await import('./commands/jobs/update.js')).run,
  },
  {
    words: ['explain'],
    args: 'ID',
    summary: 'why is this job not running?',
    options: QUEUE,
    needs: 'schema',
    load: async () => (await import('./commands/jobs/explain.js')).run,
  },
  {
    words: ['dead-letters', 'ls'],
    summary: 'list dead letters and when they died, the newest enqueue first',
    options: { ...FILTERS, ...LIST, oldest: { type: 'boolean', help: 'the oldest first' } },
    needs: 'schema',
    load: async () => (await import('./commands/jobs/list.js')).runDeadLetters,
  },
  {
    words: ['dead-letters', 'groups'],
    summary: 'dead letters by type and error, the largest group first',
    detail:
      'Of each queue the newest 50,000 are read. In an error, # stands for a number or an id. A part of the\n' +
      'text without # can be given to --error of ls, retry and discard.',
    options: {
      ...FILTERS,
      'by-key': { type: 'boolean', help: 'and by partition key' },
    },
    needs: 'schema',
    load: async () => (await import('./commands/jobs/dead-letter-groups.js')).run,
  },
  {
    words: ['dead-letters', 'retry'],
    args: '[ID...]',
    summary: 'as jobs retry',
    detail: BULK,
    options: { ...FILTERS, ...ACT },
    needs: 'schema',
    onInterrupt: 'finish',
    load: async () => (await import('./commands/jobs/act.js')).runRetry,
  },
  {
    words: ['dead-letters', 'discard'],
    args: '[ID...]',
    summary: 'as jobs discard',
    detail: BULK,
    options: { ...FILTERS, ...ACT },
    needs: 'schema',
    onInterrupt: 'finish',
    load: async () => (await import('./commands/jobs/act.js')).runDiscard,
  },
  ...QUEUE_COMMANDS,
  ...LIMIT_COMMANDS,
  ...SCHEDULE_COMMANDS,
  {
    words: ['top'],
    summary: 'queues, rates and workers, live; q or Ctrl-C ends it',
    options: {
      every: { type: 'string', value: 'TIME', help: 'how often; default 2s' },
      once: { type: 'boolean', help: 'one frame only' },
    },
    needs: 'schema',
    onInterrupt: 'finish',
    load: async () => (await import('./commands/queues/top.js')).run,
  },
  {
    words: ['doctor'],
    summary: 'look for what is wrong, with why it matters and the fix; exit code 3 if anything is',
    needs: 'database',
    load: async () => (await import('./commands/setup/doctor.js')).run,
  },
  ...ARCHIVE_COMMANDS,
  ...IMPORT_COMMANDS,
  {
    words: ['dashboard'],
    summary: 'the system in a browser, live; on 127.0.0.1 and read-only unless told otherwise',
    detail:
      'Elsewhere than on 127.0.0.1 it wants a token of at least 16 characters, in the environment variable HOLDFAST_DASHBOARD_TOKEN.',
    options: {
      host: { type: 'string', value: 'ADDRESS', help: 'where to listen; default 127.0.0.1' },
      port: { type: 'string', value: 'PORT', help: 'default 7433; 0: any that is free' },
      path: { type: 'string', value: 'PATH', help: 'under which it is, such as /jobs; default /' },
      write: {
        type: 'boolean',
        help: 'let people act: retry, discard, cancel, pause, run, drain, set limits',
      },
      'allow-host': {
        type: 'string',
        multiple: true,
        value: 'NAME',
        help: 'a name under which it answers; several times for several',
      },
    },
    needs: 'schema',
    onInterrupt: 'finish',
    load: async () => (await import('./commands/setup/dashboard.js')).run,
  },
];
