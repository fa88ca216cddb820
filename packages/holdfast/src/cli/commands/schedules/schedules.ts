/** `holdfast schedules ls | show | pause | resume | run | delete`. */
import { actOnSchedule, together } from '../../../api/act/acts.js';
import { scheduleView } from '../../../api/act/schedules.js';
import { span } from '../../../inspect/reading/words.js';
import { nearest } from '../../../job/options/nearest.js';
import { upcoming } from '../../../schedule/instants.js';
import { findSchedule, readSchedules, type ScheduleRow } from '../../../schedule/list.js';
import { actOptions } from '../../actor.js';
import { confirmed } from '../../ask/confirm.js';
import { type Call, EXIT } from '../../command.js';
import { Failure, UsageError } from '../../failures.js';
import { plain, type TableColumn } from '../../print/table.js';

const PAGE = 1_000;
const UPCOMING = 3;

const timing = ({ cron, everyMs, timezone }: ScheduleRow) =>
  cron === null ? `every ${span(everyMs ?? 0)}` : `${cron} ${timezone}`;

const columns: readonly TableColumn<ScheduleRow>[] = [
  { title: 'SCHEDULE', of: ({ name }) => name },
  { title: 'QUEUE', of: ({ queue }) => queue },
  { title: 'TYPE', of: ({ type }) => type },
  { title: 'WHEN', of: timing },
  { title: 'NEXT', of: (row) => nextText(row), align: 'right' },
  {
    title: 'LAST',
    of: ({ lastAt, now }) => (lastAt === null ? null : `${span(now - lastAt)} ago`),
    align: 'right',
  },
  { title: 'TICKS', of: ({ ticks }) => ticks, align: 'right' },
  { title: 'DECLARED BY', of: ({ declaredBy }) => declaredBy },
  {
    title: 'STATE',
    of: ({ paused }) => (paused ? 'paused' : 'on'),
    style: ({ paused }) => (paused ? 'worry' : null),
  },
];

function nextText({ nextAt, now, paused }: ScheduleRow): string | null {
  if (nextAt === null) return 'never';
  if (paused) return null;
  return nextAt > now ? `in ${span(nextAt - now)}` : `${span(now - nextAt)} overdue`;
}

function oneName(args: readonly string[], verb: string): string {
  const [name, ...rest] = args;
  if (!name || rest.length > 0) throw new UsageError(`Write: holdfast schedules ${verb} NAME`);
  return name;
}

const namesOf = (call: Call) => call.session.names('inbox');

export async function runList(call: Call): Promise<void> {
  const { given, session, out } = call;
  const queue = given.text('queue');
  if (queue) await session.queues([queue]);
  const declaredBy = given.text('declared-by');
  const filter = {
    ...{ queue, declaredBy, prefix: given.text('prefix') },
    paused: given.flag('paused') ? true : undefined,
  };
  let after: string | null = null;
  for (let first = true; ; first = false) {
    const page = { after, limit: PAGE };
    const rows: ScheduleRow[] = await session.read((db) =>
      readSchedules(db, namesOf(call), filter, page),
    );
    if (out.json) for (const row of rows) await out.value(scheduleView(row));
    else if (rows.length > 0) await out.rows(rows, columns, { headless: !first });
    else if (first) out.note('There is no such schedule.');
    if (rows.length < PAGE) return;
    after = rows.at(-1)?.name ?? null;
  }
}

async function found(call: Call, name: string): Promise<ScheduleRow> {
  const row = await call.session.read((db) => findSchedule(db, namesOf(call), name));
  if (row) return row;
  const others = await call.session.read((db) =>
    readSchedules(db, namesOf(call), {}, { after: null, limit: PAGE }),
  );
  const known = others.map((one) => one.name);
  throw new Failure(`There is no schedule "${name}"; nothing was done.${nearest(name, known)}`);
}

const iso = (at: number | null) => (at === null ? null : new Date(at).toISOString());

export async function runShow(call: Call): Promise<void> {
  const { args, given, out } = call;
  const row = await found(call, oneName(args, 'show'));
  const withPayload = given.flag('payload');
  const after = row.nextInstant === null ? row.now : row.nextInstant - 1;
  const next = upcoming(row, after, UPCOMING).map(iso);
  if (out.json) {
    const { payload, ...view } = scheduleView(row);
    await out.value({ ...view, ...(withPayload && { payload }), upcoming: next });
    return;
  }
  const lines: Record<string, string | number | null> = {
    ...{
      name: row.name,
      queue: row.queue,
      'declared by': row.declaredBy ?? 'nobody: made at run time',
    },
    type: row.version === 1 ? row.type : `${row.type} (version ${row.version})`,
    ...{ when: timing(row), 'catch up': row.catchUp, overlap: row.overlap },
    jitter: row.jitterMs === 0 ? null : span(row.jitterMs),
    ...{ key: row.partitionKey, priority: row.priority, attempts: row.maxAttempts },
    state: row.paused ? 'paused' : 'on',
    next: nextText(row),
    instants: next.join(', ') || null,
    ...{ last: iso(row.lastInstant), 'last job': row.lastJob },
    ...{ ticks: row.ticks, skipped: row.skipped, missed: row.missed },
  };
  for (const [name, value] of Object.entries(lines)) {
    if (value === null) continue;
    await out.line(`${out.paint(name.padEnd(16), 'dim')} ${plain(String(value))}`);
  }
  if (!withPayload) return;
  await out.line('\npayload');
  await out.line(JSON.stringify(JSON.parse(row.payload), null, 2));
}

/** Does it, and writes its row in the audit, in one transaction. */
function act<Verb extends Parameters<typeof actOnSchedule>[2]>(
  { session, given }: Call,
  verb: Verb,
  name: string,
) {
  return together(session.pool, (db) =>
    actOnSchedule(db, session.schema, verb, name, actOptions(given)),
  );
}

async function turn(call: Call, paused: boolean): Promise<void> {
  const { args, out } = call;
  const name = oneName(args, paused ? 'pause' : 'resume');
  await found(call, name);
  const { changed } = await act(call, paused ? 'pause_schedule' : 'resume_schedule', name);
  await (out.json ? out.value({ schedule: name, paused }) : out.line(name));
  const state = paused ? 'paused' : 'on';
  out.note(
    !changed
      ? `Schedule "${name}" was ${state} already.`
      : paused
        ? `Schedule "${name}" is paused: it makes no jobs. Those that it made stay.`
        : `Schedule "${name}" is on again, from its next instant; what the pause left out is not caught up.`,
  );
}

export const runPause = (call: Call) => turn(call, true);
export const runResume = (call: Call) => turn(call, false);

export async function runRun(call: Call): Promise<void> {
  const { args, out } = call;
  const name = oneName(args, 'run');
  await found(call, name);
  const { id, skipped } = await act(call, 'run_schedule', name);
  await (out.json ? out.value({ schedule: name, id, skipped }) : out.line(id));
  if (skipped)
    out.note(
      `Schedule "${name}" skips overlaps, and this job of it is not over; nothing was enqueued.`,
    );
}

export async function runDelete(call: Call): Promise<number> {
  const { args, out } = call;
  const name = oneName(args, 'delete');
  const row = await found(call, name);
  if (!(await confirmed(call, `delete schedule "${name}"`))) return EXIT.failed;
  await act(call, 'delete_schedule', name);
  await (out.json ? out.value({ schedule: name, deleted: true }) : out.line(name));
  if (row.declaredBy !== null)
    out.note(`"${row.declaredBy}" declares it in code: it comes back with the next declaration.`);
  return EXIT.ok;
}
