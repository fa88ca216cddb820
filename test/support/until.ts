/** Waiting for a fact instead of sleeping: asks until it holds, or fails with what it last saw. */
export async function until<Value>(
  what: string,
  ask: () => Value | Promise<Value>,
  options: { timeoutMs?: number; everyMs?: number } = {},
): Promise<NonNullable<Value>> {
  const deadline = Date.now() + (options.timeoutMs ?? 30_000);
  for (;;) {
    const value = await ask();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`waited in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, options.everyMs ?? 20));
  }
}
