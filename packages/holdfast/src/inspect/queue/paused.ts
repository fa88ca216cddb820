/** What of a queue is paused by itself, in words. */
import { firstFew } from '../reading/words.js';
import type { QueueRow } from './queues.js';

const MOST = 5;

export const isPartlyPaused = ({ pausedTypes, pausedKeys }: QueueRow) =>
  pausedTypes.length + pausedKeys.length > 0;

/** `the type send_receipt; the keys order:1, order:2`; '' when there is none. */
export function describePaused({ pausedTypes, pausedKeys }: QueueRow): string {
  const part = (names: readonly string[], noun: string) =>
    names.length === 0
      ? []
      : [`the ${noun}${names.length === 1 ? '' : 's'} ${firstFew(names, MOST, noun)}`];
  return [...part(pausedTypes, 'type'), ...part(pausedKeys, 'key')].join('; ');
}
