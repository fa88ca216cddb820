/** The commands about queues, workers, limits and schedules. */
import { type Command, command, flag, type Options, text } from './command.js';
import { ASKING, QUEUE, REASON, YES } from './parse/filters.js';

const queues = () => import('./commands/queues/queues.js');
const settings = () => import('./commands/queues/queue-settings.js');
const workers = () => import('./commands/queues/workers.js');
const limits = () => import('./commands/limits.js');
const schedules = () => import('./commands/schedules.js');

/** How the keys of a queue share its workers. */
const TURNS: Options = {
  'per-key': text('N|none', 'at most so many jobs of a key at once, in the whole fleet'),
  'per-group': text('N|none', 'at most so many jobs of a group at once, in the whole fleet'),
  fair: text('on|off', 'keys take turns: one with many jobs does not hold up the others'),
  weights: text('JSON', `with --fair on: how many jobs a key gets a turn, '{"tenant:7": 3}'`),
};

const NEW_QUEUE: Options = {
  ordering: text(
    'key',
    'jobs of one key run one after the other; default none: the oldest due job first',
  ),
  'dead-letters': text(
    'hold',
    'with ordering: a dead letter holds its key until somebody acts; default free',
  ),
  ...TURNS,
  ...REASON,
};

const SETTINGS: Options = {
  'archive-retention': text('TIME', 'how long finished jobs are kept; 0: completed ones are not'),
  'idempotency-retention': text('TIME', 'how long an idempotency key stands'),
  'effect-retention': text('TIME', 'how long what was done under ctx.once is known'),
  'audit-retention': text('TIME', 'how long the audit keeps acts on this queue'),
  'age-after': text(
    'TIME|off',
    'how long a job waits for more urgent ones before it gets a share of the claims',
  ),
  'max-pending': text('N|off', 'enqueues are refused while about so many jobs wait'),
  'max-payload-bytes': text('N', 'for enqueues in SQL'),
  notify: text('on|off', 'whether an insert wakes workers that sleep'),
  ordering: text('key|none', 'only while the queue is empty'),
  'dead-letters': text('hold|free', 'with --ordering key'),
  ...TURNS,
  ...REASON,
};

const PART: Options = {
  type: text('TYPE', 'only the jobs of this type'),
  'partition-key': text('KEY', 'only the jobs of this partition key'),
  ...REASON,
};

const OF: Options = { queue: text('NAME', 'default inbox') };
const OF_QUEUE: Options = { queue: text('NAME', 'of this queue') };
const WHOLE = 'Without a TYPE it is about the whole queue.';

export const QUEUE_COMMANDS: readonly Command[] = [
  command('queues ls', 'list queues with their counts', {
    load: async () => (await queues()).runList,
  }),
  command('queues create NAME', 'create another queue of the same shape as inbox', {
    options: NEW_QUEUE,
    load: async () => (await queues()).runCreate,
  }),
  command('queues set NAME', 'show what is set on a queue, or set it', {
    detail: 'Without a setting it shows them. All of them are set in one transaction, or none.',
    options: SETTINGS,
    load: async () => (await settings()).runSet,
  }),
  command('queues drop NAME', 'drop an empty queue, with its archive', {
    detail:
      'Refused while a job is in it, in whatever state, or while a worker serves it. It says how many finished\n' +
      'jobs, idempotency keys and effect markers go with it, and asks.',
    options: { ...ASKING, ...REASON },
    load: async () => (await settings()).runDrop,
  }),
  command('queues pause NAME', 'take jobs, but let none be claimed', {
    options: PART,
    load: async () => (await queues()).runPause,
  }),
  command('queues resume NAME', 'let jobs be claimed again', {
    options: PART,
    load: async () => (await queues()).runResume,
  }),
  command('workers ls', 'list workers, when they were last seen and what they hold', {
    options: { all: flag('those of the last week that left or vanished as well') },
    load: async () => (await workers()).runList,
  }),
  command('workers drain ID', 'ask a worker to finish what it holds and end, with exit code 0', {
    options: REASON,
    load: async () => (await workers()).runDrain,
  }),
  command(
    'ring [--partition-key KEY]',
    'which worker comes first for which keys, in queues that are read by key',
    {
      options: {
        'partition-key': text('KEY', 'only for this key, in one line a queue'),
        ...QUEUE,
      },
      load: async () => (await import('./commands/queues/ring.js')).run,
    },
  ),
  command('limits ls', 'list limits of job types and queues, and what is used of them', {
    detail:
      'WAITING counts due jobs under the limit; holdfast explain says of any job what it waits for. EMPTY IN: when the\n' +
      'rate has let all of them start, if nothing more comes; never, if more became due in the last minute than it lets start.',
    options: OF_QUEUE,
    load: async () => (await limits()).runList,
  }),
  command(
    'limits set [TYPE]',
    'set a limit, in force at once and through deploys until it is reset',
    {
      detail: `${WHOLE} What is not named stays as it is; none takes a limit away.`,
      options: {
        ...OF,
        concurrency: text('N|none', 'so many run at once in the fleet'),
        rate: text('N/TIME|none', 'so many start in a time, such as 100/1m'),
        burst: text('N', 'so many of them at once after a pause'),
        ...REASON,
      },
      load: async () => (await limits()).runSet,
    },
  ),
  command('limits reset [TYPE]', 'back to what the code declares', {
    detail: WHOLE,
    options: { ...OF, ...REASON },
    load: async () => (await limits()).runReset,
  }),
  command('limits rm [TYPE]', 'remove a limit; the next worker that declares it brings it back', {
    detail: WHOLE,
    options: { ...OF, ...YES, ...REASON },
    load: async () => (await limits()).runRemove,
  }),
  command('schedules ls', 'list schedules, when they fire next and who declares them', {
    options: {
      ...OF_QUEUE,
      'declared-by': text('NAME', 'declared in code under this name'),
      prefix: text('TEXT', 'whose names begin so'),
      paused: flag('only those that are paused'),
    },
    load: async () => (await schedules()).runList,
  }),
  command('schedules show NAME', 'all that is known of one schedule, with its next instants', {
    options: { payload: flag('its payload as well') },
    load: async () => (await schedules()).runShow,
  }),
  command('schedules pause NAME', 'make no jobs of it until it is resumed', {
    options: REASON,
    load: async () => (await schedules()).runPause,
  }),
  command('schedules resume NAME', 'go on with its next instant', {
    options: REASON,
    load: async () => (await schedules()).runResume,
  }),
  command('schedules run NAME', 'enqueue its job now; when it fires next stays as it is', {
    options: REASON,
    load: async () => (await schedules()).runRun,
  }),
  command('schedules delete NAME', 'delete it; the jobs that it made stay', {
    options: { ...YES, ...REASON },
    load: async () => (await schedules()).runDelete,
  }),
];
