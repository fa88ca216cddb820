/**
 * One list over several queues, queue by queue, a page at a time. A search for rare jobs in a large
 * queue is given up after a while unless all are wanted; then `next` names where to go on.
 */
import { UsageError } from '../failures.js';

const PAGE = 500;
const PATIENCE_MS = 2_000;

export interface Page<Job> {
  readonly jobs: readonly Job[];
  readonly next: string | null;
}

export interface Search<Job> {
  readonly queues: readonly string[];
  readonly ask: (queue: string, after: string | null, limit: number) => Promise<Page<Job>>;
  /** What was given with --after, and whether a text is a place in such a list. */
  readonly after: string | undefined;
  readonly isPlace: (text: string) => boolean;
  readonly limit: number;
  /** Never give up. */
  readonly all: boolean;
}

export interface SearchEnd {
  /** Where to go on; null: there is nothing further. */
  readonly next: string | null;
  /** It was given up before the list was full. */
  readonly unfinished: boolean;
}

/** A place travels as `queue:place`; in a single queue a job's id is a place as well. */
function placeAfter<Job>({ after: text, queues, isPlace }: Search<Job>) {
  if (text === undefined) return { queue: queues[0], after: null };
  const colon = text.indexOf(':');
  const named = text.slice(0, Math.max(0, colon));
  const queue = queues.includes(named) ? named : queues.length === 1 ? queues[0] : undefined;
  const after = queue === named ? text.slice(colon + 1) : text;
  if (queue !== undefined && (isPlace(after) || (after === '' && queue === named)))
    return { queue, after: after || null };
  throw new UsageError(
    `--after takes what the list before named, or with one --queue the place in it; "${text}" is neither.`,
  );
}

export async function* search<Job>(
  request: Search<Job>,
): AsyncGenerator<(Job & { queue: string })[], SearchEnd> {
  const { queues, ask, limit, all } = request;
  const start = placeAfter(request);
  const untilMs = performance.now() + PATIENCE_MS;
  let found = 0;
  for (let n = Math.max(0, queues.indexOf(start.queue as string)); n < queues.length; n++) {
    const queue = queues[n] as string;
    let after = queue === start.queue ? start.after : null;
    do {
      const page = await ask(queue, after, Math.min(PAGE, limit - found));
      found += page.jobs.length;
      after = page.next;
      yield page.jobs.map((job) => ({ ...job, queue }));
      const full = found >= limit;
      const late = !all && after !== null && performance.now() > untilMs;
      if (!full && !late) continue;
      const following = queues[n + 1];
      const next = after !== null ? `${queue}:${after}` : following ? `${following}:` : null;
      return { next, unfinished: !full };
    } while (after !== null);
  }
  return { next: null, unfinished: false };
}
