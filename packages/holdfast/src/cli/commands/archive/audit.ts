/** `holdfast audit ls`: what people did, the latest first. */
import { type AuditRow, auditRows } from '../../../inspect/audit.js';
import { databaseNow } from '../../../inspect/reading/reading.js';
import { isId } from '../../../job/id.js';
import { ACTS } from '../../../operate/audit.js';
import type { Call } from '../../command.js';
import { UsageError } from '../../failures.js';
import { countOption, durationOption, wordsOption } from '../../parse/values.js';
import { right, type TableColumn } from '../../print/table.js';
import { ago } from '../../print/views.js';

const PAGE = 500;

const which = ({ filter, changes }: AuditRow) =>
  [filter, changes]
    .filter((part) => part !== null)
    .map((part) => JSON.stringify(part))
    .join(' ') || null;

const columns = (now: number): readonly TableColumn<AuditRow>[] => [
  right('WHEN', ({ at }) => ago(at, now)),
  { title: 'ACT', of: ({ act }) => act },
  { title: 'QUEUE', of: ({ queue }) => queue },
  right('JOBS', ({ jobs }) => jobs),
  { title: 'ROLE', of: ({ role }) => role },
  { title: 'WHO', of: ({ actor }) => actor },
  {
    title: 'FROM',
    of: ({ client, application }) => [client, application].filter(Boolean).join(' '),
  },
  { title: 'WHY', of: ({ reason }) => reason },
  { title: 'WHICH', of: which },
];

export async function run({ given, session, out }: Call): Promise<void> {
  const filter = {
    acts: wordsOption(given, 'act', ACTS),
    queues: given.texts('queue'),
    who: given.text('who'),
    olderMs: durationOption(given, 'older'),
    newerMs: durationOption(given, 'newer'),
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
    if (found >= most) return out.note(`There is more: add --after ${after}`);
  }
  if (found === 0) out.note('No act matches.');
}
