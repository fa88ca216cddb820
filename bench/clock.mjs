// One clock for all processes of this machine, in milliseconds with fractions. It counts from the
// machine's start and is never set, so a time from one process can be taken from one of another.
export const clock = () => Number(process.hrtime.bigint()) / 1e6;

export const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Asks until the answer is true. False when it did not become true within the limit. */
export async function became(ask, limitMs, everyMs = 10) {
  const from = clock();
  while (!(await ask())) {
    if (clock() - from > limitMs) return false;
    await wait(everyMs);
  }
  return true;
}
