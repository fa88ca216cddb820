/** The commands that move jobs of another queue here. */
import { type Command, command, flag, text, texts } from '../../command.js';
import { REASON } from '../../parse/filters.js';

const DETAIL =
  'Without --yes nothing is written: it reads every job and says what would become of it. With --yes batches commit one\n' +
  'by one; the same command goes on after an interruption, and moves no job twice.';

const OPTIONS = {
  yes: { ...flag('do it; without it, only say what would be done'), short: 'y' },
  from: text('URL', 'where the other queue is; default: the same database'),
  'from-schema': text('NAME', 'its schema, or the prefix of its keys in Redis'),
  only: texts('NAME', 'of this queue or task; may be repeated'),
  map: texts('OLD=NEW', 'the type that a name becomes; may be repeated'),
  prefix: text('TEXT', 'put before the names that --map does not name'),
  key: text('TEXT', `the partition key, with fields of the payload: 'order:{orderId}'`),
  queue: text('NAME', 'into this queue; default inbox'),
  failed: flag('also jobs that gave up, as dead letters'),
  keep: flag('leave them in the source as well'),
  batch: text('N', 'so many in one transaction; default 1000'),
  ...REASON,
};
const CRONTAB = { crontab: text('FILE', 'the crontab; its lines become schedules') };

const run = () => import('./run.js');
const of = (name: string, what: string, load: Command['load'], options = {}): Command =>
  command(`import ${name}`, `move the jobs of ${what} here`, {
    ...{ detail: DETAIL, options: { ...OPTIONS, ...options }, onInterrupt: 'finish', load },
  });

export const IMPORT_COMMANDS: readonly Command[] = [
  of('pg-boss', 'pg-boss 10 to 12, and its schedules,', async () => (await run()).runPgBoss),
  of(
    'graphile-worker',
    'graphile-worker 0.16 and later, and its crontab,',
    async () => (await run()).runGraphileWorker,
    CRONTAB,
  ),
  of('bullmq', 'BullMQ 5 and 6 on Redis, and its schedulers,', async () => (await run()).runBullmq),
];
