/** What `receive()` takes, and the checks of its values. */
import type pg from 'pg';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkInteger } from '../../job/job.js';
import { type Duration, durationMs } from '../../job/options/duration.js';
import type { ChildOptions } from '../../job/options/enqueue-options.js';
import { checkChoice, checkKnown, type Known } from '../../job/options/known-options.js';
import type { Verifier } from './delivery.js';

/**
 * The payload of a job that a webhook made.
 * @example const paid = job<Received<{ amount: number }>>('invoice_paid');
 */
export interface Received<Body = unknown> {
  /** The provider's id of the event. */
  readonly id: string;
  /** What kind of event it is, in the provider's words; null: it does not say. */
  readonly type: string | null;
  /** What was sent: its JSON, or its text with `as: 'text'`. */
  readonly body: Body;
}

/**
 * Options of `receive()`.
 * @example
 * const hook = receive(hf, job<Received>('github_event'), {
 *   verify: github(process.env.GITHUB_SECRET ?? ''),
 *   headers: ['x-github-event'],
 * });
 */
export interface ReceiveOptions<Body = unknown> {
  /** Whom to believe: `standardWebhooks`, `stripe`, `github`, `slack`, or a function of yours. */
  readonly verify: Verifier;
  /** The largest body in bytes; a larger one is answered with 413. Default 1 MiB, at most 64 MiB. */
  readonly maxBytes?: number;
  /** How long a request may take, from its first byte to the commit. Default 10 s, at most 5 minutes. */
  readonly timeout?: Duration;
  /** What the job gets as `body`: the JSON, or the exact text. Default `json`. */
  readonly as?: 'json' | 'text';
  /** Headers of the request that the job keeps, for the handler's `ctx.headers`: at most 16. Default: none. */
  readonly headers?: readonly string[];
  /** Options of the job, such as its `partitionKey`. Default: none. */
  readonly enqueue?: (event: Received<Body>) => ChildOptions;
  /** Rows of yours that commit with the job. Not called for an event that was accepted before. Default: none. */
  readonly within?: (tx: pg.PoolClient, event: Received<Body>) => unknown;
}

export interface Settings {
  readonly maxBytes: number;
  readonly timeoutMs: number;
  readonly as: 'json' | 'text';
  /** In lower case. */
  readonly headers: readonly string[];
}

const OPTIONS = {
  ...{ verify: true, maxBytes: true, timeout: true, as: true, headers: true, enqueue: true },
  within: true,
} as const satisfies Known<ReceiveOptions>;

const UNDONE = 'Nothing was made.';
const MIB = 1024 * 1024;
const MOST_HEADERS = 16;

function checkFunction(value: unknown, name: string): void {
  if (value !== undefined && typeof value !== 'function')
    throw invalid(`${name} of receive() must be a function, not ${shown(value)}. ${UNDONE}`);
}

export function settingsOf(options: ReceiveOptions<never>): Settings {
  checkKnown(options, OPTIONS, 'receive()', UNDONE);
  if (typeof options?.verify !== 'function')
    throw invalid(
      `receive() needs verify: stripe(secret), or a function of yours; not ${shown(options?.verify)}. ${UNDONE}`,
    );
  checkFunction(options.enqueue, 'enqueue');
  checkFunction(options.within, 'within');
  const headers: unknown = options.headers ?? [];
  if (!Array.isArray(headers) || headers.length > MOST_HEADERS)
    throw invalid(
      `headers of receive() must be a list of at most ${MOST_HEADERS} names. ${UNDONE}`,
    );
  const wrong = headers.find((name) => !/^[\w.-]{1,100}$/.test(String(name)));
  if (wrong !== undefined)
    throw invalid(`headers of receive() has ${shown(wrong)}, which is no name. ${UNDONE}`);
  return {
    maxBytes: checkInteger(options.maxBytes ?? MIB, 'maxBytes', 1, 64 * MIB),
    timeoutMs: durationMs(options.timeout ?? '10s', 'timeout of receive()', {
      min: 10,
      max: 300_000,
    }),
    as: checkChoice(options.as, ['json', 'text'], 'as of receive()', UNDONE) ?? 'json',
    headers: headers.map((name: string) => name.toLowerCase()),
  };
}
