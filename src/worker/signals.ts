/**
 * SIGTERM and SIGINT: the first asks for a drain, the second exits at once with 128 plus the signal.
 */
const NUMBERS = { SIGINT: 2, SIGTERM: 15 } as const;

/** Returns the function that takes the listeners off again. */
export function onSignals(stop: () => void): () => void {
  let asked = false;
  const listeners = Object.entries(NUMBERS).map(([name, number]) => {
    const listener = () => {
      if (asked) process.exit(128 + number);
      asked = true;
      stop();
    };
    process.on(name, listener);
    return () => process.off(name, listener);
  });
  return () => {
    for (const off of listeners) off();
  };
}
