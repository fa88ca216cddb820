/** The commands about limits. */
import type { Command, Options } from '../../command.js';
import { REASON, YES } from '../../parse/shared-options.js';

const OF: Options = { queue: { type: 'string', value: 'NAME', help: 'default inbox' } };

const DETAIL = 'Without a TYPE it is about the whole queue.';

export const LIMIT_COMMANDS: readonly Command[] = [
  {
    words: ['limits', 'ls'],
    summary: 'list limits of job types and queues, and what is used of them',
    detail:
      'WAITING counts due jobs under the limit; holdfast explain says of any job what it waits for.',
    options: { queue: { type: 'string', value: 'NAME', help: 'of this queue' } },
    needs: 'schema',
    load: async () => (await import('./limits.js')).runList,
  },
  {
    words: ['limits', 'set'],
    args: '[TYPE]',
    summary: 'set a limit, in force at once and through deploys until it is reset',
    detail: `${DETAIL} What is not named stays as it is; none takes a limit away.`,
    options: {
      ...OF,
      concurrency: { type: 'string', value: 'N|none', help: 'so many run at once in the fleet' },
      rate: {
        type: 'string',
        value: 'N/TIME|none',
        help: 'so many start in a time, such as 100/1m',
      },
      burst: { type: 'string', value: 'N', help: 'so many of them at once after a pause' },
      ...REASON,
    },
    needs: 'schema',
    load: async () => (await import('./limits.js')).runSet,
  },
  {
    words: ['limits', 'reset'],
    args: '[TYPE]',
    summary: 'back to what the code declares',
    detail: DETAIL,
    options: { ...OF, ...REASON },
    needs: 'schema',
    load: async () => (await import('./limits.js')).runReset,
  },
  {
    words: ['limits', 'rm'],
    args: '[TYPE]',
    summary: 'remove a limit; the next worker that declares it brings it back',
    detail: DETAIL,
    options: { ...OF, ...YES, ...REASON },
    needs: 'schema',
    load: async () => (await import('./limits.js')).runRemove,
  },
];
