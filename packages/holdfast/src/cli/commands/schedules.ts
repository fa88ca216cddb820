/** `holdfast schedules ls | show | pause | resume | run | delete`. */
import { actOnSchedule, together } from '../../api/act/acts.js';
import { scheduleView } from '../../api/act/schedules.js';
import { span } from '../../inspect/reading/words.js';
import { nearest } from '../../job/options/nearest.js';
import { upcoming } from '../../schedule/instants.js';
import { findSchedule, readSchedules, type ScheduleRow } from '../../schedule/list.js';
import { actOptions } from '../actor.js';
import { confirmed } from '../ask.js';
import { type Call, EXIT } from '../command.js';
import { Failure } from '../failures.js';
import { right, type TableColumn } from '../print/table.js';
import { worry } from '../print/views.js';

const PAGE = 1_000;
const UPCOMING = 3;

const timing = ({ cron, everyMs, timezone }: ScheduleRow) =>
  cron === null ? `every ${span(everyMs ?? 0)}` : `${cron} ${timezone}`;

const columns: readonly TableColumn<ScheduleRow>[] = [
  { title: 'SCHEDULE', of: ({ name }) => name },
  { title: 'QUEUE', of: ({ queue }) => queue },
  { title: 'TYPE', of: ({ type }) => type },
  { title: 'WHEN', of: timing },
  right('NEXT', nextText),
  right('LAST', ({ lastAt, now }) => (lastAt === null ? null : `${span(now - lastAt)} ago`)),
  right('TICKS', ({ ticks }) => ticks),
  { title: 'DECLARED BY', of: ({ declaredBy }) => declaredBy },
  {
    title: 'STATE',
    of: ({ paused }) => (paused ? 'paused' : 'on'),
    style: ({ paused }) => worry(paused),
  },
];

function nextText({ nextAt, now, paused }: ScheduleRow): string | null {
  if (nextAt === null) return 'never';
  if (paused) return null;
  return nextAt > now ? `in ${span(nextAt - now)}` : `${span(now - nextAt)} overdue`;
}

const namesOf = (call: Call) => call.session.names('inbox');

export async function runList(call: Call): Promise<void> {
  const { given, session, out } = call;
  const queue = given.text('queue');
  if (queue) await session.queues([queue]);
  const filter = {
    ...{ queue, declaredBy: given.text('declared-by'), prefix: given.text('prefix') },
    paused: given.flag('paused') || undefined,
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

async function found(call: Call): Promise<ScheduleRow> {
  const name = call.args[0] as string;
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
  const { given, out } = call;
  const row = await found(call);
  const withPayload = given.flag('payload');
  const after = row.nextInstant === null ? row.now : row.nextInstant - 1;
  const next = upcoming(row, after, UPCOMING).map(iso);
  if (out.json) {
    const { payload, ...view } = scheduleView(row);
    await out.value({ ...view, ...(withPayload && { payload }), upcoming: next });
    return;
  }
  await out.facts({
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
  });
  if (withPayload) await out.part('payload', JSON.parse(row.payload));
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
  const { out } = call;
  const { name } = await found(call);
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
  const { out } = call;
  const { name } = await found(call);
  const { id, skipped } = await act(call, 'run_schedule', name);
  await (out.json ? out.value({ schedule: name, id, skipped }) : out.line(id));
  if (skipped)
    out.note(
      `Schedule "${name}" skips overlaps, and this job of it is not over; nothing was enqueued.`,
    );
}

export async function runDelete(call: Call): Promise<number> {
  const { out } = call;
  const { name, declaredBy } = await found(call);
  if (!(await confirmed(call, `delete schedule "${name}"`))) return EXIT.failed;
  await act(call, 'delete_schedule', name);
  await (out.json ? out.value({ schedule: name, deleted: true }) : out.line(name));
  if (declaredBy !== null)
    out.note(`"${declaredBy}" declares it in code: it comes back with the next declaration.`);
  return EXIT.ok;
}
