/** A job of a queue that is read by key, whose key is held by another one. */
import { firstLine, span } from '../reading/words.js';
import { type Situation, SUSPECT_FROM } from './facts/situation.js';
import {
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
    return { code: 'key_held', text: text(what), fix: null };
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
    return { code: 'key_held', text: text(what), fix: null };
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
  return {
    code: 'key_held',
    text:
      `Its key ${job.partitionKey} is held by job ${behind.running}, which was enqueued at the same time, was ` +
      `seen first and is run by ${describeWorker(situation, behind.worker)}.`,
    fix: null,
  };
}
