/**
 * Tells the listeners of a worker what happens. They are called synchronously. One that throws, or whose promise
 * rejects, is logged and disturbs neither the worker nor the other listeners.
 */
import { describeError } from '../job/failure.js';
import type { Logger } from '../postgres/log.js';
import type { WorkerEvent } from './events.js';

type Listener = (event: WorkerEvent) => unknown;

/** `own`: the worker's option `onEvent`. `others` may grow and shrink meanwhile. */
export function emitterOf(
  own: Listener | null,
  others: ReadonlySet<Listener>,
  log: Logger,
  message = 'an onEvent listener failed',
) {
  const failed = (error: unknown) => log.error({ err: describeError(error).message }, message);
  const call = (listener: Listener, event: WorkerEvent) => {
    try {
      const answer = listener(event);
      if (answer instanceof Promise) answer.catch(failed);
    } catch (error) {
      failed(error);
    }
  };
  return {
    hasListeners: () => own !== null || others.size > 0,
    emit(event: WorkerEvent): void {
      if (own) call(own, event);
      for (const listener of others) call(listener, event);
    },
  };
}
