/** The commands about runs of workflows. */
import { ARCHIVED_STATUSES } from '../inspect/job/archive.js';
import { LIVE_RUN_STATES } from '../inspect/run/state.js';
import { type Command, command, flag, type Options, text, texts } from './command.js';
import { ASKING, LIST, QUEUE, REASON } from './parse/filters.js';

const act = () => import('./commands/workflows/act.js');
const BY_ID: Options = { ...QUEUE, ...ASKING, ...REASON };

const LIST_OPTIONS: Options = {
  workflow: texts('NAME', 'runs of this workflow; may be repeated'),
  state: texts(
    'STATE',
    `${LIVE_RUN_STATES.join(', ')}; or ${ARCHIVED_STATUSES.join(', ')} (archive)`,
  ),
  'partition-key': text('KEY', 'runs of this partition key'),
  tag: text('TAG', 'runs that were started with this tag'),
  ...QUEUE,
  ...LIST,
};

export const WORKFLOW_COMMANDS: readonly Command[] = [
  command('workflows ls', 'list runs of workflows and what they wait for, the newest first', {
    options: LIST_OPTIONS,
    load: async () => (await import('./commands/workflows/list.js')).run,
  }),
  command('workflows show ID', 'what a run has done and what it waits for, as a line of time', {
    options: { values: flag('its input, and what steps returned and signals carried'), ...QUEUE },
    load: async () => (await import('./commands/workflows/show.js')).run,
  }),
  command('workflows history ID', 'all that is recorded of a run, as JSON for replayHistory()', {
    detail:
      'It holds the input and the values of its steps: treat the file as the data of your customers.',
    options: QUEUE,
    load: async () => (await import('./commands/workflows/history.js')).run,
  }),
  command(
    'workflows signal ID NAME [VALUE | -]',
    'send a signal; the value is JSON, or - for stdin',
    {
      detail: 'It is kept until a wait of the run takes it.',
      options: {
        key: text('KEY', 'send it once: a second one with this key is dropped'),
        ...QUEUE,
        ...REASON,
      },
      load: async () => (await act()).runSignal,
    },
  ),
  command('workflows cancel ID...', 'runs go to the archive as cancelled', {
    options: {
      undo: flag('they undo what they did first'),
      children: flag('and their children'),
      ...BY_ID,
    },
    onInterrupt: 'finish',
    load: async () => (await act()).runCancel,
  }),
  command('workflows retry ID...', 'dead letters go on; what they have done stays done', {
    options: {
      from: text('STEP', 'this step, and all that came after it, are done again'),
      ...BY_ID,
    },
    onInterrupt: 'finish',
    load: async () => (await act()).runRetry,
  }),
];
