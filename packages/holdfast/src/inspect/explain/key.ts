/** A job of a queue that is read by key: another one holds the key, or its key or group has all that it may have. */
import { firstLine, many, span } from '../reading/words.js';
import type { Window } from './facts/line.js';
import { type Situation, SUSPECT_FROM } from './facts/situation.js';
import {
  because,
  clock,
  counted,
  describeWorker,
  nobodyFor,
  type Reason,
  sinceMs,
  times,
} from './reasons.js';

export function keyHeld(situation: Situation): Reason | null {
  const { job, head } = situation;
  if (!head) return null;
  const line = head.ahead === 1 ? '' : ` ${counted(head.ahead, 'job')} of the key stand before it.`;
  const text = (what: string) =>
    `Its key ${job.partitionKey} is held by job ${head.id}, which ${what}.${line}`;
  const inMs = -sinceMs(situation, head.runAt);
  if (head.status === 'dead_letter') {
    return {
      code: 'key_held',
      text: text(
        `is a dead letter and holds the key until it is retried or discarded (${firstLine(head.lastError)})`,
      ),
      fix: `holdfast jobs retry ${head.id}, or holdfast jobs discard ${head.id}`,
      quotes: head.type,
    };
  }
  if (head.status === 'processing') {
    const until = `until ${clock(head.leaseExpiresAt)}`;
    const ago = head.claimedAt ? ` for ${span(sinceMs(situation, head.claimedAt))},` : '';
    const what = `is leased by ${describeWorker(situation, head.claimedBy)}${ago} ${until}`;
    return because('key_held', text(what));
  }
  const nobody = nobodyFor(situation, head);
  if (nobody && inMs <= 0) {
    return {
      code: 'key_held',
      text: `${text('is due and is not claimed')} ${nobody.text}`,
      fix: nobody.fix && `${nobody.fix}; or holdfast jobs cancel ${head.id}`,
    };
  }
  if (head.crashes >= SUSPECT_FROM && inMs <= 0) {
    return {
      code: 'key_held',
      text: text(`has crashed its worker ${times(head.crashes)} and waits to be run apart`),
      fix: `holdfast explain ${head.id}`,
    };
  }
  if (inMs > 0) {
    const retries = head.attempts > 0 ? 'is retrying' : 'waits for its time';
    const why = head.lastOutcome === 'snoozed' ? 'is snoozed' : retries;
    const what = `${why} until ${clock(head.runAt)} (in ${span(inMs)})`;
    return because('key_held', text(what));
  }
  return {
    code: 'key_held',
    text: text('is due and waits for its turn'),
    fix: `holdfast explain ${head.id}`,
  };
}

/** One that stands behind it runs: their enqueues overlapped, and it was seen first. */
export function laterRuns(situation: Situation): Reason | null {
  const { job, behind } = situation;
  if (!behind?.running) return null;
  return because(
    'key_held',
    `Its key ${job.partitionKey} is held by job ${behind.running}, which was enqueued at the same time, was ` +
      `seen first and is run by ${describeWorker(situation, behind.worker)}.`,
  );
}

export function keyFull(situation: Situation): Reason | null {
  const { job, queue, window } = situation;
  const perKey = window?.own ?? queue.perKey;
  if (!window || perKey === null || window.keyJobs < perKey) return null;
  const longest =
    window.longest === null
      ? ''
      : ` The longest is job ${window.longest}, on ${describeWorker(situation, window.worker)} for ${span(sinceMs(situation, window.since))}.`;
  return {
    code: 'key_full',
    text:
      `${many(window.keyJobs, 'job')} of its key ${job.partitionKey} ${window.keyJobs === 1 ? 'is' : 'are'} in the hands of workers, and the queue ` +
      `"${queue.name}" allows ${perKey} at once (perKey).${longest}${lineOf(window)}`,
    fix:
      window.own === null
        ? `Wait, or allow more: holdfast queues set ${queue.name} --per-key ${perKey + 1}`
        : `Wait, or allow more: holdfast webhooks set ${job.partitionKey} --queue ${queue.name} --concurrency ${perKey + 1}`,
  };
}

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
