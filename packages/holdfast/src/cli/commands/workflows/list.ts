/** `holdfast workflows ls`: runs, and what each waits for. */
import { endedView, type Run, type RunWait, runView } from '../../../api/look/run-views.js';
import { ARCHIVED_STATUSES, endedRuns, isArchivePlace } from '../../../inspect/job/archive.js';
import { databaseNow } from '../../../inspect/reading/reading.js';
import { firstLine, span } from '../../../inspect/reading/words.js';
import { listRuns } from '../../../inspect/run/list.js';
import { LIVE_RUN_STATES, type RunState } from '../../../inspect/run/state.js';
import { workflowTypes } from '../../../inspect/run/types.js';
import { isId } from '../../../job/id.js';
import type { Call } from '../../command.js';
import { UsageError } from '../../failures.js';
import { wordsOption } from '../../parse/values.js';
import { right, type TableColumn } from '../../print/table.js';
import { search } from '../jobs/list.js';

const ENDED: readonly string[] = ARCHIVED_STATUSES;
const STATES = [...LIVE_RUN_STATES, ...ENDED];

/** For the middle of a line. */
export function waitText({ kind, name, signals, until, remaining, children, error }: RunWait) {
  const end = until === null ? '' : ` until ${until.toISOString()}`;
  if (kind === 'wait') return `${signals?.join(' or ')} (${name})${end}`;
  if (kind === 'sleep') return `${name}${end}`;
  if (kind === 'children') return `${remaining} of ${children} children (${name})`;
  return `${name} again${end}: ${firstLine(error)}`;
}

const columns = (now: number, several: boolean): readonly TableColumn<Run>[] => [
  { title: 'RUN', of: ({ id }) => id },
  ...(several ? [{ title: 'QUEUE', of: ({ queue }: Run) => queue }] : []),
  {
    title: 'WORKFLOW',
    of: ({ workflow, version }) => (version === 1 ? workflow : `${workflow} v${version}`),
  },
  {
    title: 'STATE',
    of: ({ state }) => state,
    style: ({ state }) => (state === 'dead_letter' ? 'bad' : null),
  },
  { title: 'KEY', of: ({ id, key }) => (key === id ? null : key) },
  { title: 'TAG', of: ({ tag }) => tag },
  right('AGE', ({ createdAt }) => span(now - Number(createdAt))),
  {
    title: 'WAITS FOR',
    of: ({ waits, lastError, state }) =>
      state === 'dead_letter' ? firstLine(lastError) : waits.map(waitText).join('; ') || null,
  },
];

export async function run(call: Call): Promise<void> {
  const { given, session } = call;
  const states = wordsOption(given, 'state', STATES) as RunState[] | undefined;
  const [key, tag] = [given.text('partition-key'), given.text('tag')];
  const types = given.texts('workflow');
  const archived = states?.filter((one) => ENDED.includes(one)) ?? [];
  if (archived.length > 0 && archived.length < (states?.length ?? 0))
    throw new UsageError(
      `One list shows the queue or the archive: ask for ${archived.join(', ')} in a list of its own.`,
    );
  const queues = await session.queueNames(given.texts('queue'));
  const now = await session.read((db) => databaseNow(db, session.schema));
  const shown = { queues, none: 'No run matches.', columns: columns(now, queues.length > 1) };
  if (archived.length > 0)
    return search<Run>(call, {
      ...{ ...shown, isPlace: isArchivePlace },
      ask: (queue, after, limit) =>
        session.read(async (db) => {
          const names = session.names(queue);
          const known = types ?? (await workflowTypes(db, names)).map(({ type }) => type);
          const filter = { types: known, statuses: archived, key };
          const page = await endedRuns(db, names, filter, tag, { after, limit });
          return { jobs: page.jobs.map((row) => endedView(queue, row)), next: page.next };
        }),
    });
  return search<Run>(call, {
    ...{ ...shown, isPlace: isId },
    ask: async (queue, after, limit) => {
      const filter = { workflows: types, states, key, tag };
      const range = { after, limit };
      const page = await session.read((db) => listRuns(db, session.names(queue), filter, range), {
        snapshot: true,
      });
      return { jobs: page.runs.map((row) => runView(queue, row)), next: page.next };
    },
  });
}
