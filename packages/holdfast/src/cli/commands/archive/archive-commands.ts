/** The commands about finished jobs, and about what people did. */
import type { Command } from '../../command.js';
import { FILTERS, STATUS } from '../../parse/filters.js';
import { ACT, ASKING, BULK, LIST, QUEUE, REASON } from '../../parse/shared-options.js';

export const ARCHIVE_COMMANDS: readonly Command[] = [
  {
    words: ['archive', 'ls'],
    summary: 'list finished jobs, the latest first',
    options: { ...STATUS, ...FILTERS, ...LIST },
    needs: 'schema',
    load: async () => (await import('../jobs/list.js')).runArchive,
  },
  {
    words: ['archive', 'replay'],
    args: '[ID...]',
    summary: 'cancelled and discarded jobs run again, with all their attempts',
    detail:
      `${BULK}\n` +
      'Each keeps its id; in a queue that is read by key it goes to the end of its line. A job whose idempotency\n' +
      'key stands for another job by now is left in the archive.',
    options: {
      ...STATUS,
      ...FILTERS,
      completed: { type: 'boolean', help: 'completed jobs as well: they run once more' },
      'repeat-effects': { type: 'boolean', help: 'what they did under ctx.once is done again' },
      ...ACT,
    },
    needs: 'schema',
    onInterrupt: 'finish',
    load: async () => (await import('./replay.js')).run,
  },
  {
    words: ['archive', 'prune'],
    args: '--older AGE',
    summary: 'delete finished jobs from the archive for good',
    options: {
      older: { type: 'string', value: 'AGE', help: 'that ended at least so long ago' },
      ...QUEUE,
      ...ASKING,
      batch: { type: 'string', value: 'N', help: 'so many in one statement; default 5000' },
      ...REASON,
    },
    needs: 'schema',
    onInterrupt: 'finish',
    load: async () => (await import('./prune.js')).run,
  },
  {
    words: ['audit', 'ls'],
    summary: 'what people did to jobs, queues and workers, the latest first',
    options: {
      act: {
        type: 'string',
        multiple: true,
        value: 'ACT',
        help: 'such as cancel; may be repeated',
      },
      ...QUEUE,
      who: {
        type: 'string',
        value: 'TEXT',
        help: 'a part of the role, user, application or address',
      },
      older: { type: 'string', value: 'AGE', help: 'at least so long ago' },
      newer: { type: 'string', value: 'AGE', help: 'at most so long ago' },
      ...LIST,
    },
    needs: 'schema',
    load: async () => (await import('./audit.js')).run,
  },
];
