/** The `node:events` of the browser: what clients, pools and the keeper's port use of it. */
type Listener = (...args: unknown[]) => void;

export class EventEmitter {
  readonly #listeners = new Map<string, Listener[]>();

  on(name: string, listener: Listener): this {
    this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), listener]);
    return this;
  }

  once(name: string, listener: Listener): this {
    const first: Listener = (...args) => {
      this.off(name, first);
      listener(...args);
    };
    return this.on(name, first);
  }

  off(name: string, listener: Listener): this {
    const others = (this.#listeners.get(name) ?? []).filter((one) => one !== listener);
    this.#listeners.set(name, others);
    return this;
  }

  removeListener(name: string, listener: Listener): this {
    return this.off(name, listener);
  }

  emit(name: string, ...args: unknown[]): boolean {
    const listeners = this.#listeners.get(name) ?? [];
    for (const listener of listeners) listener(...args);
    return listeners.length > 0;
  }

  listeners(name: string): Listener[] {
    return [...(this.#listeners.get(name) ?? [])];
  }

  listenerCount(name: string): number {
    return this.#listeners.get(name)?.length ?? 0;
  }
}

export const setMaxListeners = (): void => undefined;

/** Of an AbortSignal. */
export const once = (target: EventTarget, name: string): Promise<Event> =>
  new Promise((resolve) => target.addEventListener(name, resolve, { once: true }));
