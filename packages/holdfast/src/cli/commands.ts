/** Every command of `holdfast`, in the order of the help. */
import { type Command, command, flag, text, texts } from './command.js';
import { IMPORT_COMMANDS } from './commands/import/import-commands.js';
import { ACT, ASKING, BULK, FILTERS, LIST, QUEUE, REASON, STATUS } from './parse/filters.js';
import { PROJECTION_COMMANDS } from './projection-commands.js';
import { QUEUE_COMMANDS } from './queue-commands.js';
import { WEBHOOK_COMMANDS } from './webhook-commands.js';
import { WORKFLOW_COMMANDS } from './workflow-commands.js';

const act = () => import('./commands/jobs/act.js');
const lists = () => import('./commands/jobs/list.js');
const OLDEST = { oldest: flag('the oldest first') };
const BY_ID = { detail: BULK, options: { ...FILTERS, ...ACT }, onInterrupt: 'finish' } as const;
const RETRY = { ...BY_ID, load: async () => (await act()).runRetry };
const DISCARD = { ...BY_ID, load: async () => (await act()).runDiscard };

export const COMMANDS: readonly Command[] = [
  command(
    'init [FOLDER]',
    'write a commented configuration and a first handler that run as they are',
    {
      options: {
        js: flag('JavaScript (.mjs)'),
        ts: flag('TypeScript (.mts); default where this Node runs it'),
        template: text(
          'NAME',
          'a small app instead: fastify-drizzle, hono-kysely, next-prisma or nest',
        ),
      },
      needs: 'nothing',
      load: async () => (await import('./commands/setup/init.js')).run,
    },
  ),
  command('migrate [--status | --sql]', 'bring the schema to this version', {
    options: {
      status: flag('only tell what is applied'),
      sql: flag('print what would run, and run nothing'),
    },
    needs: 'database',
    load: async () => (await import('./commands/setup/migrate.js')).run,
  }),
  command('work', 'run a worker with the handlers of holdfast.config', {
    options: {
      config: text('FILE', 'default: holdfast.config.{ts,mts,mjs,js} here'),
      concurrency: text('N', 'so many handlers at once'),
      ...QUEUE,
    },
    needs: 'nothing',
    onInterrupt: 'own',
    load: async () => (await import('./commands/setup/work.js')).run,
  }),
  command('enqueue TYPE [PAYLOAD | -]', 'enqueue one job; the payload is JSON, or - for stdin', {
    detail:
      'With --lines every line of stdin is the payload of a job: all of them in one transaction, in their order.\n' +
      'Jobs of one --partition-key run in that order in a queue that is read by key.',
    options: {
      lines: flag('a job for every line of stdin, in their order, or none'),
      queue: text('NAME', 'default inbox'),
      'partition-key': text('KEY', 'the stream that it belongs to; default: one of its own'),
      group: text('GROUP', 'its group, where keys take turns'),
      'idempotency-key': text('KEY', 'the same key is one job'),
      unique: text('KEY', 'at most one waiting job of this type for the key'),
      while: text('pending|running|kept', 'how long a job keeps its key'),
      window: text('TIME', 'with --while kept: how long after the enqueue'),
      'on-conflict': text('ignore|replace|later', 'what a second enqueue does'),
      delay: text('TIME', 'due so much later, such as 10m'),
      'run-at': text('WHEN', 'due then, in ISO 8601'),
      priority: text('N', '1 (first) to 4 (last); default 2'),
      'max-attempts': text('N', 'default 5'),
      'job-version': text('N', 'the version of the payload; default 1'),
      header: texts('NAME=VALUE', 'may be repeated'),
      strict: flag('refuse a type that no worker has registered'),
    },
    load: async () => (await import('./commands/jobs/enqueue.js')).run,
  }),
  command('status', 'every queue and the workers at a glance', {
    options: QUEUE,
    load: async () => (await import('./commands/queues/status.js')).run,
  }),
  command('jobs ls', 'list jobs, the newest first', {
    options: { ...STATUS, ...FILTERS, ...LIST, ...OLDEST },
    load: async () => (await lists()).run,
  }),
  command('jobs show ID', 'all that is known of one job', {
    options: { payload: flag('its payload and its result as well'), ...QUEUE },
    load: async () => (await import('./commands/jobs/show.js')).run,
  }),
  command('jobs wait ID', 'wait until a job has ended; exit code 1 unless it is completed', {
    options: {
      timeout: text('TIME', 'stop waiting after this time, such as 30s; the job goes on'),
      queue: text('NAME', 'default: where it is found'),
    },
    load: async () => (await import('./commands/jobs/wait.js')).run,
  }),
  command('jobs retry [ID...]', 'dead letters run again, with all their attempts', RETRY),
  command('jobs discard [ID...]', 'dead letters go to the archive', DISCARD),
  command('jobs cancel [ID...]', 'jobs that wait or run go to the archive as cancelled', {
    detail: `${BULK}\nThe handler of a running one is aborted at its next renewal; nothing that it settles counts.`,
    options: { ...STATUS, ...FILTERS, ...ACT },
    onInterrupt: 'finish',
    load: async () => (await act()).runCancel,
  }),
  command('jobs update ID', 'change a job that waits', {
    options: {
      payload: text('JSON', 'another payload; - for stdin'),
      priority: text('N', '1 (first) to 4 (last)'),
      delay: text('TIME', 'due so much from now; 0s: at once'),
      'run-at': text('WHEN', 'due then, in ISO 8601'),
      queue: text('NAME', 'default: where it is found'),
      ...REASON,
    },
    load: async () => (await import('./commands/jobs/update.js')).run,
  }),
  command('explain ID', 'why is this job not running?', {
    options: QUEUE,
    load: async () => (await import('./commands/jobs/explain.js')).run,
  }),
  command('dead-letters ls', 'list dead letters and when they died, the newest enqueue first', {
    options: { ...FILTERS, ...LIST, ...OLDEST },
    load: async () => (await lists()).runDeadLetters,
  }),
  command('dead-letters groups', 'dead letters by type and error, the largest group first', {
    detail:
      'Of each queue the newest 50,000 are read. In an error, # replaces a number or an id. A part of the\n' +
      'text without # can be given to --error of ls, retry and discard.',
    options: { ...FILTERS, 'by-key': flag('and by partition key') },
    load: async () => (await import('./commands/jobs/dead-letter-groups.js')).run,
  }),
  command('dead-letters retry [ID...]', 'as jobs retry', RETRY),
  command('dead-letters discard [ID...]', 'as jobs discard', DISCARD),
  ...WORKFLOW_COMMANDS,
  ...PROJECTION_COMMANDS,
  ...QUEUE_COMMANDS,
  ...WEBHOOK_COMMANDS,
  command('top', 'queues, rates and workers, live; q or Ctrl-C ends it', {
    options: { every: text('TIME', 'how often; default 2s'), once: flag('one frame only') },
    onInterrupt: 'finish',
    load: async () => (await import('./commands/queues/top.js')).run,
  }),
  command(
    'doctor',
    'look for what is wrong, with why it matters and the fix; exit code 3 if anything is',
    {
      options: {
        watch: flag('look again and again until Ctrl-C; the exit code is that of the last look'),
        every: text('TIME', 'with --watch: how often; default 10s'),
      },
      needs: 'database',
      onInterrupt: 'finish',
      load: async () => (await import('./commands/setup/doctor.js')).run,
    },
  ),
  command('incident', 'one bundle of all that these commands know, to hand on', {
    detail:
      'Queues, findings of the doctor, why the oldest jobs wait, workers, limits, locks, settings, versions and the last\n' +
      'acts of people. No payloads, results, errors of jobs, statements of sessions or passwords.',
    options: { out: text('FILE', 'write it there, as JSON; default: print it') },
    load: async () => (await import('./commands/setup/incident.js')).run,
  }),
  command('archive ls', 'list finished jobs, the latest first', {
    options: { ...STATUS, ...FILTERS, ...LIST },
    load: async () => (await lists()).runArchive,
  }),
  command(
    'archive replay [ID...]',
    'cancelled and discarded jobs run again, with all their attempts',
    {
      detail:
        `${BULK}\n` +
        'Each keeps its id; in a queue that is read by key it goes to the end of its line. A job stays in the archive\n' +
        'if another job has its idempotency key by now.',
      options: {
        ...STATUS,
        ...FILTERS,
        completed: flag('completed jobs as well: they run once more'),
        'repeat-effects': flag('what they did under ctx.once is done again'),
        ...ACT,
      },
      onInterrupt: 'finish',
      load: async () => (await import('./commands/archive/replay.js')).run,
    },
  ),
  command('archive prune --older AGE', 'delete finished jobs from the archive for good', {
    options: {
      older: text('AGE', 'that ended at least so long ago'),
      ...QUEUE,
      ...ASKING,
      batch: text('N', 'so many in one statement; default 5000'),
      ...REASON,
    },
    onInterrupt: 'finish',
    load: async () => (await import('./commands/archive/prune.js')).run,
  }),
  command('audit ls', 'what people did to jobs, queues and workers, the latest first', {
    options: {
      act: texts('ACT', 'such as cancel; may be repeated'),
      ...QUEUE,
      who: text('TEXT', 'a part of the role, user, application or address'),
      older: text('AGE', 'at least so long ago'),
      newer: text('AGE', 'at most so long ago'),
      ...LIST,
    },
    load: async () => (await import('./commands/archive/audit.js')).run,
  }),
  ...IMPORT_COMMANDS,
  command(
    'dashboard',
    'the system in a browser, live; on 127.0.0.1 and read-only unless told otherwise',
    {
      detail:
        'Elsewhere than on 127.0.0.1 it wants a token of at least 16 characters, in the environment variable HOLDFAST_DASHBOARD_TOKEN.',
      options: {
        host: text('ADDRESS', 'where to listen; default 127.0.0.1'),
        port: text('PORT', 'default 7433; 0: any that is free'),
        path: text('PATH', 'under which it is, such as /jobs; default /'),
        write: flag('let people act: retry, discard, cancel, pause, run, drain, set limits'),
        'allow-host': texts('NAME', 'a name under which it answers; several times for several'),
      },
      onInterrupt: 'finish',
      load: async () => (await import('./commands/setup/dashboard.js')).run,
    },
  ),
];
