/**
 * A verb over all jobs that a filter names: how many there are, whether that is wanted, and then batch by
 * batch. Each batch commits by itself: an interrupted run has done what it says, and the same command goes
 * on with the rest.
 */
import { type Movement, moveJobs, recordOf } from '../../api/act/acts.js';
import type { JobFilter } from '../../inspect/job/filter.js';
import { countJobs, listJobs } from '../../inspect/job/list.js';
import { many } from '../../inspect/reading/words.js';
import { inBatches } from '../../operate/bulk.js';
import { actOptions } from '../actor.js';
import { type Call, EXIT } from '../command.js';
import { Partly } from '../failures.js';
import { countOption } from '../parse/filters.js';
import { Progress } from '../print/progress.js';
import type { Verb } from '../verbs.js';
import { confirmed } from './confirm.js';

/** Counts, asks, acts and tells; the exit code. */
export async function actOnMany(call: Call, verb: Verb, filter: JobFilter): Promise<number> {
  const { session, out, given, signal } = call;
  const queues = (await session.queues(given.texts('queue'))).map((queue) => queue.name);
  const counts = new Map<string, number>();
  for (const queue of queues) {
    const count = await countMatching(call, queue, filter);
    if (count > 0) counts.set(queue, count);
  }
  if (signal.aborted) return EXIT.interrupted;
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  if (total === 0) {
    if (out.json) await out.value({ matched: 0, [verb.done]: 0, finished: true });
    out.note(`No ${verb.noun} matches; nothing was done.`);
    return EXIT.ok;
  }
  const where = [...counts.keys()].map((queue) => `"${queue}"`).join(', ');
  const what = `${verb.name} ${many(total, verb.noun)} of ${where}`;
  if (given.flag('dry-run')) {
    if (out.json) await out.value({ matched: total, [verb.done]: 0, finished: false });
    out.note(`This would ${what}. Nothing was done.`);
    return EXIT.ok;
  }
  if (!(await confirmed(call, what))) return EXIT.failed;
  const { moved, finished, error } = await everyBatch(call, verb, filter, counts);
  if (out.json) await out.value({ matched: total, [verb.done]: moved, finished });
  else await out.line(`${moved.toLocaleString('en')} ${verb.done}`);
  if (error) throw new Partly(error, soFar(moved, verb.done));
  if (finished) return EXIT.ok;
  out.note(
    `Interrupted: ${many(Math.max(0, total - moved), verb.noun)} are left as they were. The same command goes on.`,
  );
  return EXIT.interrupted;
}

/** The batch that was under way when the connection broke may have been committed. */
export const soFar = (moved: number, done: string) =>
  `At least ${moved.toLocaleString('en')} were ${done}, and the same command goes on with the rest`;

async function countMatching(call: Call, queue: string, filter: JobFilter): Promise<number> {
  const { session, out, signal } = call;
  const progress = new Progress(out, null);
  let [sum, after] = [0, null as string | null];
  do {
    const step = await session.read((db) => countJobs(db, session.names(queue), filter, after));
    sum += step.matched;
    after = step.next;
    progress.update(sum);
  } while (after !== null && !signal.aborted);
  progress.end();
  return sum;
}

async function everyBatch(
  { session, out, given, signal }: Call,
  verb: Verb,
  filter: JobFilter,
  counts: ReadonlyMap<string, number>,
): Promise<{ moved: number; finished: boolean; error?: unknown }> {
  const progress = new Progress(
    out,
    [...counts.values()].reduce((sum, count) => sum + count, 0),
  );
  const limit = countOption(given, 'batch', 1_000);
  let [moved, finished] = [0, true];
  for (const queue of counts.keys()) {
    const names = session.names(queue);
    const before = moved;
    finished = false;
    const movement = movementOf({ session, given }, verb, queue, filter);
    const steps = inBatches({
      find: async (after) => {
        const page = await session.read(
          (db) => listJobs(db, names, filter, { after, limit, order: 'oldest' }),
          { snapshot: true },
        );
        return { ids: page.jobs.map((job) => job.id), next: page.next };
      },
      act: (ids) => moveJobs(movement, ids),
      signal,
    });
    try {
      for await (const step of steps) {
        moved = before + step.moved;
        finished = step.finished;
        progress.update(moved);
      }
    } catch (error) {
      progress.end();
      return { moved, finished: false, error };
    }
    if (!finished) break;
  }
  progress.end();
  return { moved, finished };
}

/** One act on one queue: all its batches count in one row of the audit. */
export function movementOf(
  { session, given }: Pick<Call, 'session' | 'given'>,
  verb: Verb,
  queue: string,
  filter: JobFilter | null,
): Movement {
  const options = actOptions(given);
  return {
    pool: session.pool,
    names: session.names(queue),
    move: verb.move(options.reason, filter?.statuses),
    record: recordOf({ act: verb.name, queue, filter }, options),
  };
}
