/**
 * Tells the listeners of a worker what happens. They are called synchronously. One that throws, or whose promise
 * rejects, is logged and disturbs neither the worker nor the other listeners.
 */
import { describeError } from '../job/failure.js';
import type { Logger } from '../postgres/log.js';
import type { WorkerEvent } from './events.js';

type Listener = (event: WorkerEvent) => unknown;

export class Emitter {
  readonly #own: Listener | null;
  readonly #others: ReadonlySet<Listener>;
  readonly #log: Logger;

  /** `own`: the worker's option `onEvent`. `others` may grow and shrink meanwhile. */
  constructor(own: Listener | null, others: ReadonlySet<Listener>, log: Logger) {
    this.#own = own;
    this.#others = others;
    this.#log = log;
  }

  get hasListeners(): boolean {
    return this.#own !== null || this.#others.size > 0;
  }

  emit(event: WorkerEvent): void {
    if (this.#own) this.#call(this.#own, event);
    for (const listener of this.#others) this.#call(listener, event);
  }

  #call(listener: Listener, event: WorkerEvent): void {
    try {
      const answer = listener(event);
      if (answer instanceof Promise) answer.catch(this.#failed);
    } catch (error) {
      this.#failed(error);
    }
  }

  readonly #failed = (error: unknown) =>
    this.#log.error({ err: describeError(error).message }, 'an onEvent listener failed');
}
