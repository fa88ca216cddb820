/** What a pause is about: a queue, or its jobs of one type or key. */
import { invalid } from '../../job/errors/holdfast-error.js';
import { checkKey } from '../../job/key.js';
import { checkNamed, type Known } from '../../job/options/known-options.js';
import { ACT_OPTIONS, type ActOptions } from '../../operate/options.js';
import type { QueuePart } from '../../operate/queue.js';
import { named, typeOf } from './limits.js';

/**
 * What `hf.pause()` and `hf.resume()` are about: with neither `type` nor `key`, the whole queue.
 * @example await hf.pause('orders', { key: 'order:9182', reason: 'disputed' });
 */
export type PauseOptions = ActOptions &
  (
    | {
        /** Only jobs of this type. Default: all jobs. */
        readonly type?: string;
        readonly key?: undefined;
      }
    | {
        readonly type?: undefined;
        /** Only jobs of this partition key. Default: all jobs. */
        readonly key?: string;
      }
  );

export const PAUSE_OPTIONS = {
  ...{ type: true, key: true, ...ACT_OPTIONS },
} as const satisfies Known<PauseOptions>;

/** Null: all of the queue. */
export function partOf(options: PauseOptions): QueuePart | null {
  const { type, key } = options;
  checkNamed(options, ['type', 'key'], 'the whole queue');
  if (type !== undefined && key !== undefined) {
    throw invalid(
      'type and key were both given; nothing was done. Give one of them, in two calls if need be.',
    );
  }
  if (type !== undefined) return { type: typeOf(type) };
  return key === undefined ? null : { key: named(() => checkKey(key)) };
}
