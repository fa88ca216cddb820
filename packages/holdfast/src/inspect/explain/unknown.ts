/**
 * A job that nobody knows any more. An archive that was pruned, or not restored, cannot tell a job that ended from
 * one that never was, so the answer says what is possible and no more.
 */
import { span } from '../reading/words.js';
import type { Unknown } from './facts/situation.js';
import type { Reason } from './reasons.js';

const NEVER = 'it was never enqueued here, or its transaction was rolled back or is still open';
const GONE = 'it ended, and its row was pruned, deleted, or lost in a restore';
const CANNOT = 'It cannot be known which';

export function unknown(about: Unknown): Reason {
  const names = about.queues.map(({ name }) => `"${name}"`).join(', ') || 'any queue';
  const { filtered } = about.trace;
  if (filtered.length > 0) {
    const whose = filtered.map((name) => `"${name}"`).join(', ');
    return {
      code: 'unknown',
      text:
        `No job with this id can be seen in ${names}, nor in the archive. Row level security is on for ${whose} and ` +
        'hides rows from this user: the job may be there, and what workers see depends on their user.',
      fix: 'holdfast doctor names the tables, with the statement to switch it off; or ask again as a user whom it shows everything.',
    };
  }
  const where = `No job with this id is in ${names}, nor in the archive.`;
  return { code: 'unknown', text: `${where} ${possible(about)}`, fix: null };
}

function possible({ queues, nowMs, trace }: Unknown): string {
  if (trace.ran) {
    return (
      'A claim or an effect marker of it is left, so it was here and was run. ' +
      'How it ended cannot be known: its row in the archive is gone.'
    );
  }
  const since = trace.madeMs === null ? null : nowMs - trace.madeMs;
  if (since === null || since < 0) {
    return `${CANNOT}: ${NEVER}; or ${GONE}. (The id does not say when it was made.)`;
  }
  const kept = Math.max(0, ...queues.map((queue) => queue.archiveRetentionMs));
  const made = `Its id was made ${span(since)} ago`;
  if (since > kept) {
    const keeps =
      kept === 0 ? 'nothing is kept of jobs that ended' : `the archive keeps ${span(kept)}`;
    return `${made} and ${keeps}: if it ran, it was pruned since. ${CANNOT}: ${NEVER}; or ${GONE}.`;
  }
  if (trace.uncovered.length > 0) {
    const whose = trace.uncovered.map((name) => `"${name}"`).join(', ');
    return (
      `${made}, which the archive should still cover, but that of ${whose} has nothing that ended before: ` +
      `it is new, or it was pruned or not restored. ${CANNOT}: ${NEVER}; or ${GONE}.`
    );
  }
  return (
    `${made}, and the archive reaches further back: a job that ended should be there. Most likely its transaction ` +
    'was rolled back or is still open, or it belongs to another database. Whether its row was deleted by hand, ' +
    'or lost in a restore to an earlier moment, cannot be known.'
  );
}
