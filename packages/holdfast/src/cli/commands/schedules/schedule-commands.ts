/** The commands about schedules. */
import type { Command } from '../../command.js';
import { REASON, YES } from '../../parse/shared-options.js';

export const SCHEDULE_COMMANDS: readonly Command[] = [
  {
    words: ['schedules', 'ls'],
    summary: 'list schedules, when they fire next and who declares them',
    options: {
      queue: { type: 'string', value: 'NAME', help: 'of this queue' },
      'declared-by': { type: 'string', value: 'NAME', help: 'declared in code under this name' },
      prefix: { type: 'string', value: 'TEXT', help: 'whose names begin so' },
      paused: { type: 'boolean', help: 'only those that are paused' },
    },
    needs: 'schema',
    load: async () => (await import('./schedules.js')).runList,
  },
  {
    words: ['schedules', 'show'],
    args: 'NAME',
    summary: 'all that is known of one schedule, with its next instants',
    options: { payload: { type: 'boolean', help: 'its payload as well' } },
    needs: 'schema',
    load: async () => (await import('./schedules.js')).runShow,
  },
  {
    words: ['schedules', 'pause'],
    args: 'NAME',
    summary: 'make no jobs of it until it is resumed',
    options: REASON,
    needs: 'schema',
    load: async () => (await import('./schedules.js')).runPause,
  },
  {
    words: ['schedules', 'resume'],
    args: 'NAME',
    summary: 'go on with its next instant',
    options: REASON,
    needs: 'schema',
    load: async () => (await import('./schedules.js')).runResume,
  },
  {
    words: ['schedules', 'run'],
    args: 'NAME',
    summary: 'enqueue its job now; when it fires next stays as it is',
    options: REASON,
    needs: 'schema',
    load: async () => (await import('./schedules.js')).runRun,
  },
  {
    words: ['schedules', 'delete'],
    args: 'NAME',
    summary: 'delete it; the jobs that it made stay',
    options: { ...YES, ...REASON },
    needs: 'schema',
    load: async () => (await import('./schedules.js')).runDelete,
  },
];
