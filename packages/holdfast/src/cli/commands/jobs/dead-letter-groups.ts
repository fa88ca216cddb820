/** `holdfast dead-letters groups`: dead letters by type and error, and by key if asked, the largest group first. */
import {
  type DeadLetterGroupRow,
  deadLetterGroups,
  moreLetters,
  SCAN_LETTERS,
} from '../../../inspect/job/failures.js';
import { databaseNow } from '../../../inspect/reading/reading.js';
import { span } from '../../../inspect/reading/words.js';
import type { Call } from '../../command.js';
import { filterOf } from '../../parse/filters.js';
import { right, type TableColumn } from '../../print/table.js';
import { sinceMs } from '../../print/views.js';

type Group = Omit<DeadLetterGroupRow, 'groups'> & { readonly queue: string };

export async function run({ given, session, out }: Call): Promise<void> {
  const filter = filterOf(given);
  const byKey = given.flag('by-key');
  const queues = await session.queues(given.texts('queue'));
  const now = await session.read((db) => databaseNow(db, session.schema));
  const groups: Group[] = [];
  for (const { name: queue } of queues) {
    const found = await session.read((db) =>
      deadLetterGroups(db, session.names(queue), filter, byKey),
    );
    const all = found[0]?.groups ?? 0;
    if (all > found.length)
      out.note(
        `Only the largest ${found.length} of ${all.toLocaleString('en')} groups of "${queue}" are shown.`,
      );
    const more = await session.read((db) => moreLetters(db, session.names(queue)));
    if (more.length > 0)
      out.note(
        `Only the newest ${SCAN_LETTERS.toLocaleString('en')} dead letters of "${queue}" were read: the figures are at least so many. holdfast status counts all of them.`,
      );
    groups.push(...found.map(({ groups: _, ...group }) => ({ queue, ...group })));
  }
  if (groups.length === 0) return out.note('No dead letter matches.');
  groups.sort((a, b) => b.jobs - a.jobs);
  return out.rows(groups, columns(now, { queue: queues.length > 1, key: byKey }));
}

const columns = (
  now: number,
  shown: { readonly queue: boolean; readonly key: boolean },
): readonly TableColumn<Group>[] => [
  right('JOBS', ({ jobs }) => jobs.toLocaleString('en')),
  ...(shown.queue ? [{ title: 'QUEUE', of: ({ queue }: Group) => queue }] : []),
  { title: 'TYPE', of: ({ type }) => type },
  ...(shown.key ? [{ title: 'KEY', of: ({ key }: Group) => key }] : []),
  right('OLDEST', ({ oldest }) => span(sinceMs(oldest, now) ?? 0)),
  right('NEWEST', ({ newest }) => span(sinceMs(newest, now) ?? 0)),
  { title: 'EXAMPLE', of: ({ example }) => example },
  { title: 'ERROR', of: ({ error }) => error },
];
