/** `holdfast workflows show ID`: what a run has done and what it waits for, as a line of time. */
import { type ShownJob, showJob } from '../../../inspect/job/show.js';
import { type RunSignal, type RunStep, stepsOf } from '../../../inspect/job/steps.js';
import { databaseNow } from '../../../inspect/reading/reading.js';
import { span } from '../../../inspect/reading/words.js';
import { runNow } from '../../../inspect/run/waits.js';
import { TAG_HEADER } from '../../../job/headers.js';
import type { Call } from '../../command.js';
import { Failure } from '../../failures.js';
import { oneId } from '../../parse/values.js';
import { right, type TableColumn } from '../../print/table.js';

/** Characters of the line of time. */
const WIDTH = 30;

export const unknownRun = (id: string, queues: readonly string[]) =>
  new Failure(
    `No run ${id} is in ${queues.map((name) => `"${name}"`).join(', ')}, nor in the archive. ` +
      `holdfast explain ${id} says what that may mean.`,
  );

export async function run({ args, given, session, out }: Call): Promise<void> {
  const id = oneId(args);
  const queues = await session.queueNames(given.texts('queue'));
  const values = given.flag('values');
  const job = await session.read((db) => showJob(db, session.schema, queues, id, values));
  if (!job) throw unknownRun(id, queues);
  const names = session.names(job.queue);
  const now = await session.read((db) => databaseNow(db, session.schema));
  const found = await session.read((db) => stepsOf(db, names, id, values));
  const state = job.archived ? null : await session.read((db) => runNow(db, names, id));
  const { payload, result, ...rest } = job;
  const facts = { ...rest, status: statusOf(job), state: state?.state ?? statusOf(job) };
  if (out.json) {
    const run = { ...facts, ...(values && { payload, result }) };
    return out.value({ run, ...found });
  }
  await out.facts(lines(job, facts.state));
  if (values) await out.part('input', payload);
  if (values && result !== null) await out.part('result', result);
  if (found.steps.length === 0)
    out.note(job.archived ? 'Its steps were pruned.' : 'It has taken no step yet.');
  else await timeline(out, job, found.steps, now);
  await signals(out, found.signals);
}

const statusOf = ({ archived, status }: ShownJob) =>
  archived && status === 'dead_letter' ? 'discarded' : status;

function lines(job: ShownJob, state: string): Record<string, string | number | null> {
  const headers = job.headers as Readonly<Record<string, string>> | null;
  return {
    run: job.id,
    workflow: `${job.type} (version ${job.version})`,
    queue: job.archived ? `${job.queue} (archive)` : job.queue,
    state,
    key: job.partitionKey === job.id ? null : job.partitionKey,
    tag: headers?.[TAG_HEADER] ?? null,
    'turns without progress': job.attempts > 1 ? `${job.attempts} of ${job.maxAttempts}` : null,
    created: job.createdAt,
    ended: job.completedAt,
    worker: job.claimedBy,
    error: job.lastError,
  };
}

/** From the start of the run to its end, or to now: `#` it worked, `.` it waited. */
function bar({ kind, startedAt, endedAt }: RunStep, from: number, to: number): string {
  const at = (time: string | null) => {
    const share = (Date.parse(time ?? '') - from) / Math.max(1, to - from);
    return Math.min(WIDTH - 1, Math.max(0, Math.floor(share * WIDTH)));
  };
  const start = at(startedAt);
  const end = endedAt === null ? WIDTH - 1 : at(endedAt);
  const sign = ['step', 'transaction', 'undo'].includes(kind) ? '#' : '.';
  const drawn = ' '.repeat(start) + sign.repeat(Math.max(1, end - start + 1));
  return `|${drawn.padEnd(WIDTH)}|`;
}

function detail({ kind, state, error, signals, remaining, dueAt }: RunStep): string | null {
  const until = dueAt === null ? '' : `until ${dueAt}`;
  if (error !== null) return `${error.name}: ${error.message}${until && `; again at ${dueAt}`}`;
  if (state === 'dropped') return 'the run ended without it';
  if (state === 'started') return 'its outcome is not known yet';
  if (kind === 'wait') return `for ${signals?.join(' or ') ?? 'a signal'} ${until}`.trim();
  if (kind === 'children' && remaining !== null) return `${remaining} have not ended`;
  return until || null;
}

async function timeline(
  out: Call['out'],
  job: ShownJob,
  steps: readonly RunStep[],
  now: number,
): Promise<void> {
  const [from, to] = [
    Date.parse(job.createdAt),
    job.completedAt ? Date.parse(job.completedAt) : now,
  ];
  const columns: readonly TableColumn<RunStep>[] = [
    { title: 'STARTED', of: ({ startedAt }) => startedAt.replace(/\d{3}Z$/, 'Z') },
    { title: 'STEP', of: ({ name }) => name },
    { title: 'KIND', of: ({ kind }) => kind },
    {
      title: 'STATE',
      of: ({ state }) => state,
      style: ({ state }) => (state === 'failed' ? 'bad' : state === 'done' ? 'good' : 'worry'),
    },
    right('TOOK', ({ ms }) => (ms === null ? null : span(ms))),
    right('TRIES', ({ attempts }) => attempts),
    { title: 'TIME', of: (step) => bar(step, from, to) },
    { title: 'DETAIL', of: detail },
  ];
  await out.line('');
  await out.rows(steps, columns);
}

async function signals(out: Call['out'], all: readonly RunSignal[]): Promise<void> {
  if (all.length === 0) return;
  await out.line('');
  await out.rows(all, [
    { title: 'SENT', of: ({ sentAt }) => sentAt },
    { title: 'SIGNAL', of: ({ name }) => name },
    { title: 'KEY', of: ({ key }) => key },
    { title: 'TAKEN BY', of: ({ takenBy }) => takenBy },
  ]);
}
