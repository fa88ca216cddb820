import { test } from 'vitest';

const inLong = Boolean(process.env.HOLDFAST_LONG);

/** What `npm run test:long` does in full and `npm test` in a shorter form that shows the same. */
export const long = <Value>(short: Value, full: Value): Value => (inLong ? full : short);

type Test = Pick<typeof test, never> &
  ((name: string, run: () => Promise<void> | void, timeoutMs?: number) => void);

/** A test of `npm run test:long` only: shorter ones of `npm test` show the guarantee, and this one shows more of it. */
export const longOf =
  (made: Test): Test =>
  (name, run, timeoutMs) => {
    if (inLong) made(name, run, timeoutMs);
  };

export const longTest = longOf(test);
