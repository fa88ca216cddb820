/**
 * Calls that come together share a statement. While one is under way, those that come wait for the next: so an idle process
 * answers at once, and a busy one sends few statements. Nothing is kept: every call asks the database anew.
 */
export function batched<Item, Result>(
  work: (items: readonly Item[]) => Promise<(item: Item) => Result>,
  { atOnce = 2, max = 500 }: { atOnce?: number; max?: number } = {},
): (item: Item) => Promise<Result> {
  interface Call {
    readonly item: Item;
    readonly resolve: (result: Result) => void;
    readonly reject: (error: unknown) => void;
  }
  let waiting: Call[] = [];
  let running = 0;
  let planned = false;

  async function run(): Promise<void> {
    const calls = waiting.slice(0, max);
    waiting = waiting.slice(max);
    running++;
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
    if (planned || waiting.length === 0 || running >= atOnce) return;
    planned = true;
    // What else begins in this tick comes along.
    setImmediate(() => {
      planned = false;
      if (waiting.length > 0) void run();
      plan();
    });
  }

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      plan();
    });
}
