/** What is to be said of a job that does not wait: somebody has it, or it has ended. */
import { isLive, isSilent } from '../fleet/workers.js';
import { firstLine, many, span } from '../reading/words.js';
import type { Situation } from './facts/situation.js';
import { clock, counted, describeWorker, lastEvent, type Reason, sinceMs } from './reasons.js';

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
    return {
      code: 'owner_dead',
      text: `Its owner, ${who}, is nobody that could be found dead: it was claimed by hand, or by a worker of long ago. Others take it in ${attempt} when the lease ends at ${until}.`,
      fix: null,
    };
  }
  if (owner.status === 'dead') {
    return {
      code: 'owner_dead',
      text: `Its owner, ${who}, is gone in ${attempt}: the next round of maintenance takes it back, at the latest when the lease ends at ${until}.`,
      fix: null,
    };
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
  return {
    code: 'running',
    text: `It is running${job.isolated ? ' alone in its process' : ''}: ${who} claimed it${ago}, in ${attempt}, with a lease until ${until}.`,
    fix: null,
  };
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
    return {
      code: 'completed',
      text: `It was completed at ${when}${by} in attempt ${job.attempts}.`,
      fix: null,
    };
  }
  const why = errorOf(job.lastError);
  if (job.status === 'cancelled') {
    return {
      code: 'cancelled',
      text: `It was cancelled at ${when}${why ? `: ${why}` : ''}.`,
      fix: null,
    };
  }
  return {
    code: 'discarded',
    text: `It was a dead letter and was discarded at ${when}${why ? `; its error was: ${why}` : ''}.`,
    fix: null,
  };
}
