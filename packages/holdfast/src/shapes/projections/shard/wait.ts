/** A pause that somebody else can end. */
export class Wait {
  readonly #halt = new AbortController();

  get signal(): AbortSignal {
    return this.#halt.signal;
  }

  readonly ended = new Promise<void>((resolve) => {
    this.#halt.signal.addEventListener('abort', () => resolve(), { once: true });
  });

  end(): void {
    this.#halt.abort();
  }
}
