/** A job that does not wait: somebody has it, it has ended, or nobody knows it; then the answer says only what is possible. */
import { isLive, isSilent } from '../fleet/workers.js';
import { firstLine, many, span } from '../reading/words.js';
import type { Situation, Unknown } from './facts/situation.js';
import {
  because,
  clock,
  counted,
  describeWorker,
  lastEvent,
  type Reason,
  sinceMs,
} from './reasons.js';

const START = 'Start a worker: holdfast work';

/** For the middle of a sentence, which has its own full stop. */
const errorOf = (error: string | null) => firstLine(error).replace(/\.+$/, '');

export function inHand(situation: Situation): Reason {
  const { job, workers } = situation;
  const owner = workers.find((one) => one.id === job.claimedBy);
  const who = describeWorker(situation, job.claimedBy);
  const expiredMs = sinceMs(situation, job.leaseExpiresAt);
  const attempt = `attempt ${job.attempts} of ${job.maxAttempts}`;
  const somebody = workers.some(isLive);
  const fix = somebody ? null : START;
  if (expiredMs >= 0) {
    return {
      code: 'lease_expired',
      text: `Its lease expired ${span(expiredMs)} ago; ${who} held it in ${attempt}. The next claim or round of maintenance takes it back${somebody ? '' : ', and no worker is alive to make one'}.`,
      fix,
    };
  }
  const until = `${clock(job.leaseExpiresAt)} (in ${span(-expiredMs)})`;
  if (!owner) {
    return because(
      'owner_dead',
      `Its owner, ${who}, is nobody that could be found dead: it was claimed by hand, or by a worker of long ago. Others take it in ${attempt} when the lease ends at ${until}.`,
    );
  }
  if (owner.status === 'dead') {
    return because(
      'owner_dead',
      `Its owner, ${who}, is gone in ${attempt}: the next round of maintenance takes it back, at the latest when the lease ends at ${until}.`,
    );
  }
  if (isSilent(owner)) {
    return {
      code: 'owner_silent',
      text:
        `Its owner, ${who}, sends no heartbeats and is frozen, cut off or gone, in ${attempt}. ` +
        (somebody
          ? `The next round of maintenance declares it dead, and others take the job, at the latest when the lease ends at ${until}.`
          : `No worker is alive to take it back, not even when the lease ends at ${until}.`),
      fix,
    };
  }
  // A claim by hand need not say when.
  const ago = job.claimedAt ? ` ${span(sinceMs(situation, job.claimedAt))} ago` : '';
  return because(
    'running',
    `It is running${job.isolated ? ' alone in its process' : ''}: ${who} claimed it${ago}, in ${attempt}, with a lease until ${until}.`,
  );
}

export function deadLetter(situation: Situation): Reason {
  const { job, keyed } = situation;
  const waiting = situation.behind?.jobs ?? 0;
  const at = lastEvent(situation)?.at ?? null;
  const when = at ? ` ${span(sinceMs(situation, at))} ago` : '';
  const early = job.attempts < job.maxAttempts ? `, of ${job.maxAttempts} that it had` : '';
  const holds =
    keyed && !job.parked && waiting > 0
      ? ` It holds its key ${job.partitionKey}: behind it waits ${counted(waiting, 'job')}.`
      : '';
  const poison = job.crashes > 1 && lastEvent(situation)?.outcome === 'vanished';
  const killed = poison
    ? ` The process of its worker ended ${job.crashes} times with this job in it; a retry may end the next one.`
    : '';
  const { told } = lastEvent(situation) ?? {};
  const telling = told?.id
    ? ` Job ${told.id} ("${told.type}" in queue "${told.queue}") tells of it.`
    : told
      ? ` Its onDeadLetter job "${told.type}" in queue "${told.queue}" was not written: ${told.error}.`
      : '';
  return {
    code: 'dead_letter',
    text: `It became a dead letter${when} after ${many(job.attempts, 'attempt')}${early}: ${errorOf(job.lastError) || 'no error was kept'}.${killed}${holds}${telling}`,
    fix: poison
      ? `holdfast jobs discard ${job.id}; or mend its handler first, then holdfast jobs retry ${job.id}`
      : `holdfast jobs retry ${job.id}, or holdfast jobs discard ${job.id}`,
  };
}

export function ended(situation: Situation): Reason {
  const { job } = situation;
  const when = `${clock(job.completedAt)} (${span(sinceMs(situation, job.completedAt))} ago)`;
  if (job.status === 'completed') {
    const by = job.claimedBy ? ` by worker ${job.claimedBy}` : '';
    return because('completed', `It was completed at ${when}${by} in attempt ${job.attempts}.`);
  }
  const why = errorOf(job.lastError);
  if (job.status === 'cancelled') {
    return because('cancelled', `It was cancelled at ${when}${why ? `: ${why}` : ''}.`);
  }
  return because(
    'discarded',
    `It was a dead letter and was discarded at ${when}${why ? `; its error was: ${why}` : ''}.`,
  );
}

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
  return because('unknown', `${where} ${possible(about)}`);
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
