/** What people do, through the verbs of a Holdfast, so that the audit has a row for each. */
import { actOnSchedule, drain as drainWorker, together } from 'holdfast/internal';
import type { Context } from '../context.js';
import { type Body, ids, needed, text } from '../guard/input.js';
import { Refused } from '../guard/reply.js';
import type { Visitor } from '../options.js';
import { FLEET_ACTS, labAct, neededLab, WORKER_ACTS } from '../pages/live-lab.js';

export interface Acted {
  readonly body: Body;
  readonly params: Readonly<Record<string, string>>;
  readonly visitor: Visitor;
}

export type Act = (context: Context, acted: Acted) => Promise<unknown>;

const VERBS = ['retry', 'discard', 'cancel'] as const;
export type Verb = (typeof VERBS)[number];

export function verbOf(body: Body): Verb {
  const verb = VERBS.find((one) => one === body.verb);
  if (verb) return verb;
  throw new Refused(400, `verb must be one of ${VERBS.join(', ')}; nothing was done.`);
}

export function actOptions({ body, visitor }: Acted) {
  const reason = text(body, 'reason');
  return { actor: visitor.actor, ...(reason && { reason }) };
}

export const queueOf = (body: Body) => text(body, 'queue') ?? 'inbox';

export const act: Act = async ({ hf }, acted) => {
  const { body } = acted;
  const verb = verbOf(body);
  return { moved: await hf[verb](ids(body), { queue: queueOf(body), ...actOptions(acted) }) };
};

/** The way back from a cancel, or from a discard: to the dead letters with `asDeadLetters`, or else to run again. */
export const replay: Act = async ({ hf }, acted) => {
  const { body } = acted;
  const { moved, keyTaken } = await hf.archive.replay(ids(body), {
    queue: queueOf(body),
    asDeadLetters: body.asDeadLetters === true,
    ...actOptions(acted),
  });
  return { moved, keyTaken };
};

export const runJob: Act = async ({ hf, look }, acted) => {
  const [id, queue] = [acted.params.id as string, queueOf(acted.body)];
  await hf.update(id, { delay: 0 }, { queue, ...actOptions(acted) });
  return { moved: [id], runAt: (await look.job(id, { queue }))?.runAt ?? null };
};

function pauseOptions(acted: Acted) {
  // An empty name must not become the whole queue.
  const part = (name: 'type' | 'key') => name in acted.body && { [name]: needed(acted.body, name) };
  return { ...actOptions(acted), ...part('type'), ...part('key') };
}

export const pauseQueue: Act = async ({ hf }, acted) => {
  await hf.pause(acted.params.queue as string, pauseOptions(acted));
  return { paused: true };
};

export const resumeQueue: Act = async ({ hf }, acted) => {
  await hf.resume(acted.params.queue as string, pauseOptions(acted));
  return { paused: false };
};

/** `set` replaces the limit by `limit`; `reset` and `remove` are as in the API. */
export const limit: Act = async ({ hf }, acted) => {
  const { body } = acted;
  const type = text(body, 'type');
  const of = { queue: queueOf(body), ...(type && { type }) };
  if (body.verb === 'reset') await hf.limits.reset(of, actOptions(acted));
  else if (body.verb === 'remove') await hf.limits.remove(of, actOptions(acted));
  else if (body.verb !== 'set')
    throw new Refused(400, 'verb must be one of set, reset, remove; nothing was done.');
  // Null would lift every limit; a body that lost its limit must not.
  else if (typeof body.limit !== 'object' || body.limit === null)
    throw new Refused(400, 'limit is missing; nothing was done.');
  else await hf.limits.set(of, body.limit, actOptions(acted));
  return { done: true };
};

export const drain: Act = async ({ parts }, acted) => {
  const id = needed(acted.body, 'id');
  const was = await drainWorker(parts.pool(), parts.schema, id, actOptions(acted));
  if (was === null) throw new Refused(404, `There is no worker "${id}"; nothing was done.`);
  if (was === 'dead') throw new Refused(409, `Worker "${id}" is dead; nothing was done.`);
  return { was };
};

const SCHEDULE_ACTS = {
  pause: 'pause_schedule',
  resume: 'resume_schedule',
  run: 'run_schedule',
} as const;

export const schedule: Act = async ({ parts }, acted) => {
  const { body } = acted;
  const name = needed(body, 'name');
  const verb = text(body, 'verb') ?? '';
  if (!Object.hasOwn(SCHEDULE_ACTS, verb))
    throw new Refused(400, 'verb must be one of pause, resume, run; nothing was done.');
  const what = SCHEDULE_ACTS[verb as keyof typeof SCHEDULE_ACTS];
  const { queue: _, ...done } = await together(parts.pool(), (db) =>
    actOnSchedule(db, parts.schema, what, name, actOptions(acted)),
  );
  return done;
};

export const lab: Act = async ({ settings }, { body }) => {
  const hook = neededLab(settings.lab);
  const act = labAct(body);
  if (!act)
    throw new Refused(
      400,
      `act must be one of ${FLEET_ACTS.join(', ')}, with the number of a worker ${WORKER_ACTS.join(', ')}, ` +
        'or with a key enqueue; nothing was done.',
    );
  try {
    return { text: await hook.act(act) };
  } catch (error) {
    throw new Refused(409, (error as Error).message);
  }
};
