/** What Node has and a browser's worker has not, as far as a worker of Holdfast asks for it. Loaded before all else. */
const scope = globalThis as unknown as Record<string, unknown>;
const nothing = () => undefined;

/** After all that is under way, as soon as can be: a message to itself. */
function immediately(): (run: () => void) => number {
  const { port1, port2 } = new MessageChannel();
  const waiting: (() => void)[] = [];
  port1.onmessage = () => waiting.shift()?.();
  return (run) => {
    waiting.push(run);
    port2.postMessage(null);
    return 0;
  };
}

const soon = immediately();
scope.setImmediate ??= soon;
scope.clearImmediate ??= nothing;
scope.process ??= {
  pid: 1,
  env: {},
  version: 'browser',
  // After all microtasks, as in Node.
  nextTick: (run: (...args: unknown[]) => void, ...args: unknown[]) => soon(() => run(...args)),
  hrtime: { bigint: () => BigInt(Math.round(performance.now() * 1e6)) },
  on: nothing,
  off: nothing,
  exit: nothing,
};
scope.Buffer ??= {
  byteLength: (text: string) => new TextEncoder().encode(text).length,
  isBuffer: () => false,
};
// The keeper runs in the same thread here, so nothing has to be shared.
scope.SharedArrayBuffer ??= ArrayBuffer;
