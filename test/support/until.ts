/**
 * Waiting for a fact instead of sleeping: asks until it holds, or fails with what it last saw. What is there soon is
 * seen soon, and what takes long is asked for less often: most questions are statements, and cost processor time.
 */
const WAIT_MS = 30_000;
/** What has not come after so long is not late on a busy machine: it does not come. It is not tried again. */
const NEVER_MS = 20_000;
const FIRST_MS = 5;
const MOST_MS = 50;

export async function until<Value>(
  what: string,
  ask: () => Value | Promise<Value>,
  options: { timeoutMs?: number; everyMs?: number } = {},
): Promise<NonNullable<Value>> {
  const { timeoutMs = WAIT_MS } = options;
  const deadline = Date.now() + timeoutMs;
  const inVain = timeoutMs < NEVER_MS ? 'waited in vain for' : `not within ${timeoutMs / 1_000} s`;
  let pauseMs = options.everyMs ?? FIRST_MS;
  for (;;) {
    const value = await ask();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`${inVain}: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    if (options.everyMs === undefined) pauseMs = Math.min(pauseMs * 1.2, MOST_MS);
  }
}
