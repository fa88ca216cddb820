/** What the screens ask for, beside the feed. The same question of many browsers is asked once. */
import type { Explanation, Job } from 'holdfast';
import type { Reason } from 'holdfast/internal';
import {
  countFinished,
  countJobs,
  delayOf,
  inQueue,
  jobsFilter,
  linksOf,
  listQueues,
  listWorkers,
  openOverview,
  upcoming,
  VERSION,
} from 'holdfast/internal';
import type { Context } from '../context.js';
import { filterOf, fromQuery, numberOf } from '../guard/input.js';
import { Refused } from '../guard/reply.js';
import type { Visitor } from '../options.js';
import { neededLab } from '../pages/live-lab.js';
import { seenLimits } from './limits.js';
import { ringPicture } from './ring.js';
import { seenWorker } from './snapshot.js';

/** A count stops here and says that there are more. */
const MAX_COUNT = 100_000;
const COUNT_MS = 2_000;
const NEXT_RUNS = 3;
/** A search that has found nothing goes on for so long before it says where it is. */
export const SEARCH_MS = 1_000;

export interface Asked {
  readonly query: URLSearchParams;
  readonly params: Readonly<Record<string, string>>;
  readonly visitor: Visitor;
}

export type Read = (context: Context, asked: Asked) => Promise<unknown>;

export const session: Read = async ({ settings, parts }, { visitor }) => ({
  ...{ actor: visitor.actor, write: visitor.write === true, version: VERSION },
  ...{ schema: parts.schema, signedIn: settings.token !== undefined },
  lab: settings.lab !== undefined,
});

export const queueOf = (query: URLSearchParams) => query.get('queue') || 'inbox';

export const jobs: Read = async ({ look, redactor }, { query }) => {
  const queue = queueOf(query);
  const limit = numberOf(query, 'limit');
  const from = (after: string | null) =>
    look.jobs({
      queue,
      filter: filterOf(fromQuery(query)),
      after,
      order: query.get('order') === 'oldest' ? 'oldest' : 'newest',
      ...(limit !== undefined && { limit }),
    });
  const deadline = performance.now() + SEARCH_MS;
  let page = await from(query.get('after') || null);
  while (page.jobs.length === 0 && page.next !== null && performance.now() < deadline)
    page = await from(page.next);
  return { ...page, jobs: page.jobs.map((job) => redactor.of(job, queue)) };
};

/** Up to a bound in number and in time: `more` says that it was met. */
export const count: Read = async ({ read, access }, { query }) => {
  const { filter, place } = jobsFilter(filterOf(fromQuery(query)));
  const names = access.names(queueOf(query));
  const ask = <Value>(work: Parameters<typeof read<Value>>[0]) => inQueue(names, read(work));
  if (place === 'archive')
    return { count: await ask((db) => countFinished(db, names, filter)), more: false };
  const deadline = performance.now() + COUNT_MS;
  let [sum, after] = [0, null as string | null];
  do {
    const step = await ask((db) => countJobs(db, names, filter, after));
    sum += step.matched;
    after = step.next;
  } while (after !== null && sum < MAX_COUNT && performance.now() < deadline);
  return { count: sum, more: after !== null };
};

export interface ShownJob {
  readonly job: Job;
  readonly explanation: Omit<Explanation, 'job'>;
}

/** A job as it is shown, and why it does or does not run. */
export async function shownJob({ look, redactor }: Context, id: string): Promise<ShownJob> {
  const found = await look.job(id);
  if (!found) throw new Refused(404, 'No queue and no archive has a job with this id.');
  const { job: _, also, ...first } = await look.explain(id);
  const { queue, type } = found;
  // They quote the last error, of this job or of another.
  const redacted = <Said extends Reason>({ quotes, ...reason }: Said) => ({
    ...reason,
    text: redactor.text(reason.text, queue, quotes ?? type),
  });
  const explanation = { ...redacted(first), also: also.map(redacted) };
  return { job: redactor.of(found, queue), explanation };
}

export const job: Read = async (context, { params }) => {
  const { read, access } = context;
  const shown = await shownJob(context, params.id as string);
  const names = access.names(shown.job.queue);
  const { isRun, parent } = await inQueue(
    names,
    read((db) => linksOf(db, names, shown.job)),
  );
  return { ...shown, isRun, parent };
};

export const workers: Read = async ({ read, access }, { query }) => {
  const withDead = query.get('all') === '1';
  const seen = await read((db, part) => openOverview(db, part, access.schema, { withDead }));
  const complete = seen.locked.length === 0;
  return { workers: seen.workers.map((row) => seenWorker(row, complete)) };
};

export const ring: Read = async ({ read, access }, { query }) => {
  const { queues, members } = await read(async (db) => ({
    queues: await listQueues(db, access.schema),
    members: await listWorkers(db, access.schema),
  }));
  const name = queueOf(query);
  const queue = queues.find((one) => one.name === name);
  if (!queue) throw new Refused(404, `There is no queue "${name}".`);
  return ringPicture(name, queue.ordering, members, query.get('key') || null);
};

export const deadLetterGroups: Read = async ({ letters, redactor }, { query }) => {
  const queue = queueOf(query);
  const { status, ...filter } = filterOf(fromQuery(query));
  const groups = await letters.groups({ queue, filter, byKey: query.get('by') === 'key' });
  return {
    groups: groups.map((group) => {
      const shown = redactor.of(group, queue);
      return { ...shown, redacted: shown.error !== group.error };
    }),
  };
};

export const queues: Read = async ({ read, access }) => ({
  queues: await read((db) => listQueues(db, access.schema)),
});

export const schedules: Read = async ({ schedules: list, redactor }, { query }) => {
  const queue = query.get('queue');
  const prefix = query.get('prefix');
  const after = query.get('after');
  const page = await list.list({
    ...(queue && { queue }),
    ...(prefix && { prefix }),
    ...(after && { after }),
  });
  const now = Date.now();
  return {
    ...page,
    schedules: page.schedules.map((schedule) => {
      const delayMs = delayOf(schedule.name, schedule.jitterMs);
      // Its instant has passed, and it has not fired yet: that is its next run.
      const nextRuns = upcoming(schedule, now - delayMs, NEXT_RUNS).map((at) => at + delayMs);
      const shown = redactor.of(schedule, schedule.queue);
      return { ...shown, delayMs, nextRuns: schedule.paused ? [] : nextRuns };
    }),
  };
};

export const limits: Read = async ({ read, access }) => ({
  limits: await read((db) => seenLimits(db, access.schema)),
});

export const lab: Read = async ({ settings }) => {
  const state = neededLab(settings.lab).state();
  if (state) return state;
  throw new Refused(503, 'The fleet is starting.');
};

export const health: Read = async ({ hf, redactor }) => {
  const findings = (await hf.doctor()).map(({ quotes, ...finding }) => ({
    ...finding,
    text: quotes ? redactor.text(finding.text, quotes.queue, quotes.type) : finding.text,
  }));
  return { findings, at: Date.now() };
};

export const audit: Read = async ({ hf }, { query }) => {
  const after = query.get('after') || null;
  return hf.audit({ after, limit: 50 });
};
