/**
 * Calls that come together share a statement: a process that is idle answers at once, and a busy one sends few statements,
 * at least `paceMs()` apart. Nothing is kept: every call asks the database anew.
 */

/** One that waits for a lock does not hold up the others. */
const LANES = 2;
const MOST = 500;

export function batched<Item, Result>(
  work: (items: readonly Item[]) => Promise<(item: Item) => Result>,
  paceMs: () => number,
): (item: Item) => Promise<Result> {
  interface Call {
    readonly item: Item;
    readonly resolve: (result: Result) => void;
    readonly reject: (error: unknown) => void;
  }
  let waiting: Call[] = [];
  let running = 0;
  let planned = false;
  let sentAt = Number.NEGATIVE_INFINITY;

  async function run(): Promise<void> {
    const calls = waiting.slice(0, MOST);
    waiting = waiting.slice(MOST);
    running++;
    sentAt = performance.now();
    try {
      const resultOf = await work(calls.map(({ item }) => item));
      for (const { item, resolve } of calls) resolve(resultOf(item));
    } catch (error) {
      for (const { reject } of calls) reject(error);
    } finally {
      running--;
      plan();
    }
  }

  function plan(): void {
    if (planned || waiting.length === 0 || running >= LANES) return;
    planned = true;
    const send = () => {
      planned = false;
      if (waiting.length > 0) void run();
      plan();
    };
    const earlyMs = sentAt + paceMs() - performance.now();
    // What else begins in this tick comes along.
    if (earlyMs > 0) setTimeout(send, earlyMs);
    else setImmediate(send);
  }

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      plan();
    });
}
