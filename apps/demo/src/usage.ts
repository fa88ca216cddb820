/**
 * How the demo is called. Anything that it does not know is an error with the usage below it, so
 * that a mistyped option does not start a fleet.
 */
import { parseArgs } from 'node:util';
import { HoldfastError } from 'holdfast';
import { durationMs } from 'holdfast/internal';

export const USAGE = `Usage: npm start [-- --for TIME]

A small shop on an embedded Postgres, and a fleet of four worker processes that
you can kill, freeze and cut off. At the end it says what it proved; the exit
code is 0 only if nothing was lost, nothing was doubled, order was kept, every
limit of the back office held, and events, webhooks and sales are as the orders.

  --for TIME   end after so long, such as 20s or 5m; default: until q or Ctrl-C
  --help       this text

If DATABASE_URL is set, it uses that server, and there a database of its own.
`;

export interface DemoOptions {
  /** Null: until somebody quits. */
  readonly forMs: number | null;
  readonly help: boolean;
}

export class UsageError extends Error {}

/** Long enough for a demo, and within what a timer can count. */
const LONGEST_MS = 7 * 86_400_000;

export function readArguments(argv: readonly string[]): DemoOptions {
  const { values } = parsed(argv);
  try {
    const forMs =
      values.for === undefined
        ? null
        : durationMs(values.for, '--for', { min: 1_000, max: LONGEST_MS });
    return { forMs, help: values.help ?? false };
  } catch (error) {
    if (error instanceof HoldfastError) throw new UsageError(error.message);
    throw error;
  }
}

function parsed(argv: readonly string[]) {
  const options = { for: { type: 'string' }, help: { type: 'boolean', short: 'h' } } as const;
  try {
    return parseArgs({ args: [...argv], options, strict: true, allowPositionals: false });
  } catch (error) {
    // Node's first sentence says what is wrong; those behind it speak of its own conventions.
    const [first] = (error as Error).message.split(/\. |\n/);
    throw new UsageError(`${first}.`);
  }
}
