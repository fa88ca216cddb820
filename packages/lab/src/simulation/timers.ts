/** The `node:timers/promises` of a simulation. */
export function setTimeout<Value>(
  ms: number,
  value?: Value,
  { signal }: { signal?: AbortSignal } = {},
): Promise<Value | undefined> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const timer = globalThis.setTimeout(() => resolve(value), ms);
    signal?.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

export const setImmediate = () => new Promise<void>((resolve) => globalThis.setImmediate(resolve));
