/** Whether the handlers do their work: how many of the last attempts failed, and of what. */
import type { RecentAttempts } from '../fleet/attempts.js';
import type { CommonError } from '../job/common-error.js';
import { many } from '../reading/words.js';
import { type Finding, type Limits, note, ok, problem } from './doctor.js';

/** Of the attempts, so many may fail before it is worth a word. */
export function isFailing({ failed, completed }: RecentAttempts, limits: Limits): boolean {
  return failed >= limits.failedAttempts && failed > (failed + completed) * limits.failedShare;
}

export function judgeAttempts(
  queue: string,
  recent: RecentAttempts,
  most: CommonError | null,
  limits: Limits,
): Finding {
  const check = 'failing attempts';
  const { failed, completed, failedPerSecond } = recent;
  const of = many(failed + completed, 'attempt');
  if (!isFailing(recent, limits))
    return ok(check, `${queue}: ${failed.toLocaleString('en')} of ${of} in the last minute`);
  const why = most ? ` Most often, ${most.type}: ${most.error}` : '';
  const finding = (failed > completed ? problem : note)(
    check,
    `${failed.toLocaleString('en')} of ${of} on "${queue}" failed in the last minute, ${failedPerSecond.toFixed(1)} a second.${why}`,
    'They are tried again, so nothing is lost yet; what has spent its attempts becomes a dead letter.',
    most
      ? `holdfast jobs show ${most.example} has the whole error. After a deploy, roll back; until then holdfast queues pause ${queue} --type ${most.type} stops the damage.`
      : `holdfast jobs ls --queue ${queue} --status pending shows the errors. After a deploy, roll back; until then holdfast queues pause ${queue} stops the damage.`,
  );
  return most ? { ...finding, quotes: { queue, type: most.type } } : finding;
}
