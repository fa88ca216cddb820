/** An act over a filter, or a group of dead letters, in steps that the page asks for: it shows how far it is, and closing it stops it. */
import type { JobsFilter, JobsPage } from 'holdfast';
import {
  cancelFor,
  databaseNow,
  discardJobs,
  durationMs,
  foldError,
  type MoveJobs,
  moveJobs,
  recordOf,
  retryAndHint,
} from 'holdfast/internal';
import type { Context } from '../context.js';
import { type Body, filterOf, text } from '../guard/input.js';
import { Refused } from '../guard/reply.js';
import { type Act, actOptions, queueOf, type Verb, verbOf } from './acts.js';

const STEP = 1_000;
const MOVES: Readonly<Record<Verb, (reason?: string, from?: readonly string[]) => MoveJobs>> = {
  ...{ retry: () => retryAndHint, discard: () => discardJobs, cancel: cancelFor },
};

/** What the page saw is acted on, and nothing that came since: it names how long ago that was. */
function seenMsAgoOf(body: Body): number | undefined {
  const { seenMsAgo } = body;
  if (seenMsAgo === undefined) return undefined;
  if (Number.isSafeInteger(seenMsAgo) && (seenMsAgo as number) >= 0) return seenMsAgo as number;
  throw new Refused(400, 'seenMsAgo is no whole number; nothing was done.');
}

function noNewer(filter: JobsFilter, seenMsAgo: number | undefined): JobsFilter {
  if (seenMsAgo === undefined) return filter;
  const older = filter.older === undefined ? 0 : durationMs(filter.older, 'older');
  // Ages as they were when it was seen: nothing grows into the filter, or out of it.
  const { newer } = filter;
  return {
    ...{ ...filter, older: older + seenMsAgo },
    ...(newer !== undefined && { newer: durationMs(newer, 'newer') + seenMsAgo }),
  };
}

async function seenAtOf({ read, access }: Context, seenMsAgo: number | undefined): Promise<number> {
  if (seenMsAgo === undefined) return Number.POSITIVE_INFINITY;
  return (await read((db) => databaseNow(db, access.schema))) - seenMsAgo;
}

/** Of a page, those that are in the group of this dead letter: with its error, no newer, and no older than `from`. */
async function groupOf(
  { look }: Context,
  queue: string,
  { like, from = '', seenAt }: { like: string; from: string | undefined; seenAt: number },
) {
  const letter = await look.job(like, { queue });
  if (!letter)
    throw new Refused(404, 'The example of this group is gone; nothing was done. Look again.');
  const died = letter.history.at(-1)?.at.getTime() ?? Number.NEGATIVE_INFINITY;
  if (letter.status !== 'dead_letter' || died > seenAt)
    throw new Refused(409, 'The example of this group has changed; nothing was done. Look again.');
  const error = foldError(letter.lastError);
  return {
    type: letter.type,
    of: ({ jobs, next }: JobsPage): JobsPage => ({
      jobs: jobs.filter(
        ({ id, lastError }) => id >= from && id <= letter.id && foldError(lastError) === error,
      ),
      next: next !== null && next < letter.id ? next : null,
    }),
  };
}

/** One step. `like`: a dead letter of the group. `next` goes into `after` of the next step; null: that was the last. */
export const bulk: Act = async (context, acted) => {
  const { body } = acted;
  const [verb, queue] = [verbOf(body), queueOf(body)];
  const given = filterOf((name) => text(body, name));
  if (!given.status) throw new Refused(400, 'Say which status; nothing was done.');
  const like = text(body, 'like');
  const seenMsAgo = seenMsAgoOf(body);
  const seenAt = await seenAtOf(context, seenMsAgo);
  const from = text(body, 'from');
  const group = like === undefined ? null : await groupOf(context, queue, { like, from, seenAt });
  const filter = noNewer(group ? { ...given, type: group.type } : given, seenMsAgo);
  const after = text(body, 'after') ?? null;
  const read = await context.look.jobs({ queue, filter, after, limit: STEP, order: 'oldest' });
  const { jobs, next } = group ? group.of(read) : read;
  // An old job may have died since.
  const seen = jobs.filter(({ diedAt }) => diedAt === null || diedAt.getTime() <= seenAt);
  const found = seen.map(({ id }) => id);
  if (found.length === 0) return { found: 0, moved: [], next };
  const options = actOptions(acted);
  const said = {
    act: verb,
    queue,
    filter: { ...filter, ...(like && { like }), ...(from && { from }) },
  };
  const moved = await moveJobs(
    {
      ...{ pool: context.parts.pool(), names: context.access.names(queue) },
      ...{
        move: MOVES[verb](options.reason, [given.status].flat()),
        record: recordOf(said, options),
      },
    },
    found,
  );
  return { found: found.length, moved, next };
};
