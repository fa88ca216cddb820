/**
 * Calls of a handler that have not ended. A handler may forget to wait for one; then the attempt waits in
 * its place, and the failure of the call is the attempt's.
 */
export class OpenCalls {
  #open: Set<Promise<unknown>> | null = null;

  /** Keeps a call for as long as it lasts, and returns it. */
  add<Value>(call: Promise<Value>): Promise<Value> {
    this.#open ??= new Set();
    const open = this.#open.add(call);
    const ended = () => open.delete(call);
    call.then(ended, ended);
    return call;
  }

  get none(): boolean {
    return !this.#open?.size;
  }

  /** Until none is open, also of those that begin meanwhile. Throws what the first of them throws. */
  async ended(): Promise<void> {
    while (this.#open?.size) await Promise.all(this.#open);
  }
}
