/** `holdfast audit ls`: what people did, the latest first. */
import { type AuditRow, auditRows } from '../../../inspect/audit.js';
import { databaseNow } from '../../../inspect/reading/reading.js';
import { span } from '../../../inspect/reading/words.js';
import { isId } from '../../../job/id.js';
import { durationMs } from '../../../job/options/duration.js';
import { nearest } from '../../../job/options/nearest.js';
import { ACTS } from '../../../operate/audit.js';
import type { Call, Given } from '../../command.js';
import { UsageError } from '../../failures.js';
import { countOption } from '../../parse/filters.js';
import type { TableColumn } from '../../print/table.js';
import { sinceMs } from '../../print/views.js';

const PAGE = 500;

function actsOf(given: Given): string[] | undefined {
  const asked = given.texts('act')?.flatMap((word) => word.split(','));
  for (const word of asked ?? []) {
    if ((ACTS as readonly string[]).includes(word)) continue;
    throw new UsageError(
      `There is no act "${word}".${nearest(word, [...ACTS])} Known: ${ACTS.join(', ')}.`,
    );
  }
  return asked;
}

const ageMs = (given: Given, name: string) => {
  const text = given.text(name);
  return text === undefined ? undefined : durationMs(text, `--${name}`);
};

const which = ({ filter, changes }: AuditRow) =>
  [filter, changes]
    .filter((part) => part !== null)
    .map((part) => JSON.stringify(part))
    .join(' ') || null;

const columns = (now: number): readonly TableColumn<AuditRow>[] => [
  { title: 'WHEN', of: ({ at }) => `${span(sinceMs(at, now) ?? 0)} ago`, align: 'right' },
  { title: 'ACT', of: ({ act }) => act },
  { title: 'QUEUE', of: ({ queue }) => queue },
  { title: 'JOBS', of: ({ jobs }) => jobs, align: 'right' },
  { title: 'ROLE', of: ({ role }) => role },
  { title: 'WHO', of: ({ actor }) => actor },
  {
    title: 'FROM',
    of: ({ client, application }) => [client, application].filter(Boolean).join(' '),
  },
  { title: 'WHY', of: ({ reason }) => reason },
  { title: 'WHICH', of: which },
];

export async function run({ args, given, session, out }: Call): Promise<void> {
  if (args.length > 0)
    throw new UsageError(`A list takes no argument, but "${args[0]}" was given.`);
  const filter = {
    acts: actsOf(given),
    queues: given.texts('queue'),
    who: given.text('who'),
    olderMs: ageMs(given, 'older'),
    newerMs: ageMs(given, 'newer'),
  };
  const most = countOption(given, 'limit', given.flag('all') ? Number.POSITIVE_INFINITY : 50);
  let after = given.text('after') ?? null;
  if (after !== null && !isId(after))
    throw new UsageError(`--after takes what the list before named, not "${after}".`);
  const now = await session.read((db) => databaseNow(db, session.schema));
  let found = 0;
  for (;;) {
    const [from, limit] = [after, Math.min(PAGE, most - found)];
    const rows = await session.read((db) =>
      auditRows(db, session.schema, filter, { after: from, limit }),
    );
    if (rows.length > 0) await out.rows(rows, columns(now), { headless: found > 0 });
    found += rows.length;
    after = rows.at(-1)?.id ?? null;
    if (rows.length < limit) break;
    if (found >= most) {
      out.note(`There is more: add --after ${after}`);
      return;
    }
  }
  if (found === 0) out.note('No act matches.');
}
