/**
 * How a Holdfast closes: its running workers stop first, then it refuses every method, then what it opened is closed. While
 * the workers drain, their handlers may still use it; only new workers are refused at once.
 */
import { HoldfastError } from '../job/errors/holdfast-error.js';

interface Stoppable {
  stop(): Promise<void>;
}

export class Closing {
  #closing: Promise<void> | null = null;
  #closed = false;
  readonly #running = new Set<Stoppable>();

  readonly whyClosed = (): HoldfastError | null => (this.#closed ? afterClose() : null);

  readonly checkOpen = (): void => {
    if (this.#closed) throw afterClose();
  };

  /** A worker would not be stopped by a `close` that has begun. */
  readonly checkWorkers = (): void => {
    if (this.#closing) throw afterClose();
  };

  /** A worker starts; `close` stops it. Returns what to call when it has ended. */
  readonly enter = (worker: Stoppable): (() => void) => {
    this.checkWorkers();
    this.#running.add(worker);
    return () => void this.#running.delete(worker);
  };

  /** `shut` closes what was opened. Whoever calls again waits for the first. */
  close(shut: () => Promise<void>): Promise<void> {
    this.#closing ??= this.#close(shut);
    return this.#closing;
  }

  async #close(shut: () => Promise<void>): Promise<void> {
    const stops = [...this.#running].map((worker) => worker.stop());
    // Without workers the methods are refused at once.
    const stopped = stops.length > 0 ? await Promise.allSettled(stops) : [];
    this.#closed = true;
    await shut();
    const failed = stopped.find((one) => one.status === 'rejected');
    if (failed) throw failed.reason;
  }
}

const afterClose = () =>
  new HoldfastError(
    'CLOSED',
    'hf.close() was called before, so nothing was done. Close it last, or make another one with holdfast().',
  );
