/** What is wrong now, in words, the worst first, each with the screen where one sees it. Nothing is asked here. */
import type { QueueInfo } from 'holdfast';
import type { Stopped, UnhandledJobs } from 'holdfast/internal';
import { describeStopped, many, span } from 'holdfast/internal';

export interface Problem {
  /** `bad`: work does not get done. `note`: somebody should know. */
  readonly level: 'bad' | 'note';
  readonly text: string;
  readonly link: string;
}

/** A due job that waits for longer is a sign that something is wrong. */
const LAG_MS = 60_000;

/** Other lines say so. */
const SAID: readonly string[] = ['no_worker', 'no_handler', 'version_too_new', 'no_body'];

interface Member {
  readonly id: string;
  readonly status: string;
  /** `silent`: no heartbeat came for its own time to live. */
  readonly state: string;
  readonly silentMs: number;
}

const bad = (text: string, link: string): Problem => ({ level: 'bad', text, link });
const note = (text: string, link: string): Problem => ({ level: 'note', text, link });
const jobsOf = (queue: string, rest: string) => `jobs?queue=${encodeURIComponent(queue)}${rest}`;

function ofQueue(queue: QueueInfo, workers: number, hasStopped: boolean): Problem[] {
  if (queue.unreadable !== null)
    return [bad(`Queue ${queue.queue} could not be read. ${queue.unreadable}`, 'health')];
  const { queue: name, paused, pending, expired, deadLetter, oldestDueMs } = queue;
  const parts = [
    ...queue.pausedTypes.map((type) => `type ${type}`),
    ...queue.pausedKeys.map((key) => `key ${key}`),
  ];
  const found: Problem[] = [];
  if (paused) {
    const wait = pending > 0 ? `; ${many(pending, 'job')} wait in it` : '';
    found.push(note(`Queue ${name} is paused${wait}.`, 'queues'));
  } else if (!hasStopped && oldestDueMs !== null && workers > 0 && oldestDueMs > LAG_MS) {
    const text = `Queue ${name} is behind: its oldest due job has waited for ${span(oldestDueMs)}.`;
    found.push(bad(text, jobsOf(name, '&status=pending&order=oldest')));
  }
  if (parts.length > 0) {
    const more = parts.length > 1 ? ` and ${many(parts.length - 1, 'more part')}` : '';
    const wait = queue.onHold > 0 ? `; ${many(queue.onHold, 'job')} wait for it` : '';
    found.push(note(`Jobs of ${parts[0]}${more} in ${name} are paused${wait}.`, 'limits'));
  }
  if (expired > 0) {
    const text = `${many(expired, 'job')} of ${name} ran on workers that are gone; recovery takes them over.`;
    found.push(note(text, jobsOf(name, '&status=processing')));
  }
  if (deadLetter > 0) {
    const wait = deadLetter === 1 ? 'waits' : 'wait';
    const text = `${many(deadLetter, 'dead letter')} in ${name} ${wait} for a person.`;
    found.push(note(text, `dead-letters?queue=${encodeURIComponent(name)}`));
  }
  return found;
}

export function problemsOf(
  queues: readonly QueueInfo[],
  workers: readonly Member[],
  unhandled: readonly UnhandledJobs[],
  stopped: readonly Stopped[] = [],
): Problem[] {
  const alive = workers.filter(({ status }) => status === 'alive');
  const waiting = queues.filter(({ paused, oldestDueMs }) => !paused && oldestDueMs !== null);
  const silent = alive.filter(({ state }) => state === 'silent');
  const problems = [
    ...(silent.length === alive.length && waiting.length > 0
      ? [bad('No worker is alive, and jobs are due: nothing runs.', 'workers')]
      : []),
    ...unhandled.map(({ queue, type, jobs }) =>
      bad(
        `No live worker handles ${many(jobs, 'due job')} of type ${type} in ${queue}.`,
        jobsOf(queue, `&type=${encodeURIComponent(type)}`),
      ),
    ),
    ...silent.map(({ id, silentMs }) =>
      bad(`Worker ${id} has been silent for ${span(silentMs)}.`, 'workers'),
    ),
    ...stopped
      .filter(({ reason }) => !SAID.includes(reason.code))
      .map((one) => bad(`${describeStopped(one)}. ${one.reason.text}`, `jobs/${one.oldest}`)),
    ...queues.flatMap((queue) => {
      const has = stopped.some((one) => one.queue === queue.queue);
      return ofQueue(queue, alive.length, has);
    }),
  ];
  return problems.sort((a, b) => Number(b.level === 'bad') - Number(a.level === 'bad'));
}
