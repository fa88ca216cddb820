/** The commands about projections. */

import { type Command, command, flag, text } from './command.js';
import { REASON, YES } from './parse/filters.js';

const load = () => import('./commands/projections.js');
const VERSION = { version: text('N', 'the build of this version') };

export const PROJECTION_COMMANDS: readonly Command[] = [
  command('projections ls [NAME]', 'builds of projections, and how far behind each is', {
    load: async () => (await load()).runList,
  }),
  command('projections stops [NAME]', 'keys that stopped at an event which was not applied', {
    load: async () => (await load()).runStops,
  }),
  command('projections resume NAME', 'apply what waits of stopped keys, in order', {
    options: { key: text('KEY', 'of this key only'), ...REASON },
    load: async () => (await load()).runResume,
  }),
  command('projections skip NAME EVENT', 'pass over an event at which a key has stopped', {
    detail: 'By the id that projections stops has. The read model then lacks this event.',
    options: { ...YES, ...REASON },
    load: async () => (await load()).runSkip,
  }),
  command('projections rebuild NAME', 'build it anew beside the live one, with the same code', {
    options: REASON,
    load: async () => (await load()).runRebuild,
  }),
  command('projections promote NAME', 'make a build the live one, in one transaction', {
    options: { ...VERSION, ...REASON },
    load: async () => (await load()).runPromote,
  }),
  command('projections rm NAME', 'drop builds that are not live, with their tables', {
    options: { ...VERSION, ...YES, ...REASON },
    load: async () => (await load()).runRemove,
  }),
  command('projections rebase NAME', 'after a restore into another cluster: carry cursors over', {
    detail: 'For all projections of its log. Stop the workers first.',
    options: { rebuild: flag('build anew where it is not certain what was read'), ...REASON },
    load: async () => (await load()).runRebase,
  }),
];
