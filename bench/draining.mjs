// How fast worker processes empty a queue: from the first handler's start in any of them until the
// database holds no unfinished job, or until the time is over.
import { became, clock } from './clock.mjs';

const NOT_STARTED_MS = 10_000;
const LAST_MS = 15_000;

const sum = (actors, of) => actors.reduce((total, actor) => total + of(actor.progress), 0);

/** `order` is what the actors are told beside; `limitMs` ends a system that would take too long. */
export async function drain(stage, entry, actors, { total, limitMs, ...order }) {
  await Promise.all(actors.map((actor) => actor.work({ markEvery: 1_000, ...order })));
  const began = clock();
  const handled = () => sum(actors, ({ count }) => count);
  const started = () => Math.min(...actors.map(({ progress }) => progress.first));
  await became(() => handled() > 0, Math.max(limitMs, NOT_STARTED_MS), 5);
  const from = started();
  const left = Math.max(0, limitMs - (clock() - began));
  const whole = await became(() => handled() >= total, left, 2);
  let until = Math.max(...actors.map(({ progress }) => progress.last));
  if (whole) {
    const empty = await became(async () => !(await stage.busy(entry)), LAST_MS, 5);
    if (!empty) throw new Error(`${entry.label} handled all jobs and left some unfinished`);
    until = clock();
  }
  const count = Math.min(total, handled());
  const result = {
    perSecond: count > 1 ? (count / (until - from)) * 1000 : 0,
    count,
    whole,
    ms: until - from,
    marks: actors.flatMap(({ progress }) => progress.marks),
    rss: Math.max(...actors.map(({ progress }) => progress.rss)),
  };
  await Promise.all(actors.map((actor) => actor.stopWork()));
  return result;
}
