/** The commands that move jobs of another queue here. */
import type { Command, Options } from '../../command.js';

const DETAIL =
  'Without --yes nothing is written: it reads every job and says what would become of it. With --yes batches commit one\n' +
  'by one; the same command goes on after an interruption, and moves no job twice.';

const OPTIONS: Options = {
  yes: { type: 'boolean', short: 'y', help: 'do it; without it, only say what would be done' },
  from: {
    type: 'string',
    value: 'URL',
    help: 'where the other queue is; default: the same database',
  },
  'from-schema': {
    type: 'string',
    value: 'NAME',
    help: 'its schema, or the prefix of its keys in Redis',
  },
  only: {
    type: 'string',
    multiple: true,
    value: 'NAME',
    help: 'of this queue or task; may be repeated',
  },
  map: {
    type: 'string',
    multiple: true,
    value: 'OLD=NEW',
    help: 'the type that a name becomes; may be repeated',
  },
  prefix: { type: 'string', value: 'TEXT', help: 'put before the names that --map does not name' },
  key: {
    type: 'string',
    value: 'TEXT',
    help: `the partition key, with fields of the payload: 'order:{orderId}'`,
  },
  queue: { type: 'string', value: 'NAME', help: 'into this queue; default inbox' },
  failed: { type: 'boolean', help: 'also jobs that gave up, as dead letters' },
  keep: { type: 'boolean', help: 'leave them in the source as well' },
  batch: { type: 'string', value: 'N', help: 'so many in one transaction; default 1000' },
};

const crontab: Options[string] = {
  type: 'string',
  value: 'FILE',
  help: 'the crontab; its lines become schedules',
};

const of = (
  name: string,
  load: Command['load'],
  { what, options = {} }: { what: string; options?: Options },
): Command => ({
  words: ['import', name],
  summary: `move the jobs of ${what} here`,
  detail: DETAIL,
  options: { ...OPTIONS, ...options },
  needs: 'schema',
  onInterrupt: 'finish',
  load,
});

export const IMPORT_COMMANDS: readonly Command[] = [
  of('pg-boss', async () => (await import('./run.js')).runPgBoss, {
    what: 'pg-boss 10 to 12, and its schedules,',
  }),
  of('graphile-worker', async () => (await import('./run.js')).runGraphileWorker, {
    what: 'graphile-worker 0.16 and later, and its crontab,',
    options: { crontab },
  }),
  of('bullmq', async () => (await import('./run.js')).runBullmq, {
    what: 'BullMQ 5 and 6 on Redis, and its schedulers,',
  }),
];
