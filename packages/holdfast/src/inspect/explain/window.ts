/** A job of a queue whose keys take turns: its key or its group has all that it may have, or it waits for its turn. */
import { many, span } from '../reading/words.js';
import type { Situation } from './facts/situation.js';
import type { Window } from './facts/window.js';
import { counted, describeWorker, type Reason, sinceMs } from './reasons.js';

/** As many jobs of its key run as may. */
export function keyFull(situation: Situation): Reason | null {
  const { job, queue, window } = situation;
  if (!window || queue.perKey === null || window.keyJobs < queue.perKey) return null;
  const longest =
    window.longest === null
      ? ''
      : ` The longest is job ${window.longest}, on ${describeWorker(situation, window.worker)} for ${span(sinceMs(situation, window.since))}.`;
  return {
    code: 'key_full',
    text:
      `${many(window.keyJobs, 'job')} of its key ${job.partitionKey} ${window.keyJobs === 1 ? 'is' : 'are'} in the hands of workers, and the queue ` +
      `"${queue.name}" allows ${queue.perKey} at once (perKey).${longest}${lineOf(window)}`,
    fix: `Wait, or allow more: holdfast queues set ${queue.name} --per-key ${queue.perKey + 1}`,
  };
}

/** As many jobs of its group run as may. */
export function groupFull({ job, queue, window }: Situation): Reason | null {
  if (!window || queue.perGroup === null || job.groupKey === null) return null;
  if (window.groupJobs < queue.perGroup) return null;
  return {
    code: 'group_full',
    text:
      `${many(window.groupJobs, 'job')} of its group ${job.groupKey} ${window.groupJobs === 1 ? 'is' : 'are'} in the hands of workers, and the queue ` +
      `"${queue.name}" allows ${queue.perGroup} at once (perGroup).`,
    fix: `Wait, or allow more: holdfast queues set ${queue.name} --per-group ${queue.perGroup + 1}`,
  };
}

const lineOf = ({ before }: Window) =>
  before === 0
    ? ''
    : ` Of its key, ${counted(before, 'job')} that became due earlier wait before it.`;

/** What comes before it when neither is full. */
export function inTurn({ queue, window }: Situation): { text: string; isNext: boolean } {
  const before = window?.before ?? 0;
  const turn = queue.fair ? ', and keys take turns' : '';
  if (before === 0) return { text: `it is the next of its key${turn}.`, isNext: true };
  return {
    text: `before it wait ${counted(before, 'job')} of its key that became due earlier${turn}.`,
    isNext: false,
  };
}
