/** Calls of a handler that have not ended. The attempt waits for them, and a failure that nobody asked about is its own. */
import { setImmediate } from 'node:timers/promises';

/** What a handler gets for a call: it knows whether anybody handles its failure. */
export class Call<Value> extends Promise<Value> {
  /** What is made of it is an ordinary promise. */
  static override get [Symbol.species]() {
    return Promise;
  }

  observed = false;

  static of<Value>(made: Promise<Value>): Call<Value> {
    return new Call((resolve) => resolve(made));
  }

  /** `await`, `catch`, `Promise.all` and the like all come through here: its constructor is not `Promise`. */
  // biome-ignore lint/suspicious/noThenProperty: it is a promise
  override then<Done = Value, Failed = never>(
    done?: ((value: Value) => Done | PromiseLike<Done>) | null,
    failed?: ((reason: unknown) => Failed | PromiseLike<Failed>) | null,
  ): Promise<Done | Failed> {
    if (failed) this.observed = true;
    return super.then(done, failed);
  }

  /** When it has ended; this does not count as asking. */
  over(failed: (error: unknown) => void): Promise<void> {
    return super.then(() => undefined, failed);
  }
}

export class OpenCalls {
  #open: Set<Promise<void>> | null = null;
  #failed: { readonly call: Call<unknown>; readonly error: unknown }[] | null = null;

  /** Keeps a call for as long as it lasts, and its failure for longer. */
  add(call: Call<unknown>): void {
    this.#open ??= new Set();
    const open = this.#open;
    const failed = (error: unknown) => {
      this.#failed ??= [];
      this.#failed.push({ call, error });
    };
    const over: Promise<void> = call.over(failed).then(() => void open.delete(over));
    open.add(over);
  }

  /** Nothing to wait for, and nothing that failed unobserved. */
  get none(): boolean {
    return !this.#open?.size && !this.#unobserved;
  }

  get #unobserved() {
    return this.#failed?.find(({ call }) => !call.observed);
  }

  /** Until none is open, also of those that begin meanwhile. Throws the first failure that nobody asked about. */
  async ended(): Promise<void> {
    while (this.#open?.size) {
      await Promise.all(this.#open);
      // What the handler's own functions call next begins now, however deep they are nested.
      await setImmediate();
    }
    const failed = this.#unobserved;
    if (failed) throw failed.error;
  }
}
