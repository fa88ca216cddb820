/** A job whose queue is open, and whose type or key is paused by itself. */

import type { Situation } from './facts/situation.js';
import type { Reason } from './reasons.js';

/** As a shell takes it. */
const shellWord = (text: string) =>
  /^[\w.:/@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

export function partPaused({ queue, job }: Situation): Reason | null {
  const resume = `holdfast queues resume ${queue.name}`;
  if (queue.pausedTypes.includes(job.type)) {
    return {
      code: 'type_paused',
      text: `The type "${job.type}" of the queue "${queue.name}" is paused: its jobs are accepted and none is claimed.`,
      fix: `${resume} --type ${job.type}`,
    };
  }
  if (!queue.pausedKeys.includes(job.partitionKey)) return null;
  return {
    code: 'key_paused',
    text: `The key ${job.partitionKey} of the queue "${queue.name}" is paused: its jobs are accepted and none is claimed.`,
    fix: `${resume} --partition-key ${shellWord(job.partitionKey)}`,
  };
}
