// When a failed job runs again: full jitter under an exponential ceiling, or what the user's own function says. A policy
// is checked when it is resolved; from then on a delay is always found. A retry function that throws or answers nonsense
// falls back to the default policy, and the problem is reported: a broken backoff must not lose the job.

import { invalid, shown } from './errors/holdfast-error.js';
import { type Duration, durationMs, MAX_DELAY_MS } from './options/duration.js';
import { checkKnown, type Known } from './options/known-options.js';

export interface RetryPolicy {
  /** The ceiling of the delay at attempt 0. */
  baseMs: number;
  /** By how much the ceiling grows with each attempt. */
  factor: number;
  /** Where the ceiling stops growing. */
  capMs: number;
}

/**
 * How long a failed job waits: a random time.
 * @example job('call_api', { retry: { base: '5s', factor: 2, cap: '10m' } });
 */
export interface RetryOptions {
  /** The longest wait is `base` × `factor`^attempt, with attempt from 1. Default 1 s. */
  base?: Duration;
  /** How fast the longest wait grows. Default 2. */
  factor?: number;
  /** The wait is never longer than this. Default 1 h. */
  cap?: Duration;
}

const OPTIONS = { base: true, factor: true, cap: true } as const satisfies Known<RetryOptions>;

/**
 * Returns how long to wait after a failed attempt.
 * @example job('call_api', { retry: ({ attempt }) => (attempt < 3 ? '1s' : '1m') });
 */
export type RetryFunction = (info: {
  /** The attempt that failed, from 1. */
  attempt: number;
  /** What the handler threw. */
  error: unknown;
  /** A number from 0 up to 1, for jitter. */
  random: () => number;
}) => Duration;

export interface RetryDelay {
  delayMs: number;
  /** What was wrong with the user's retry function, if the default policy had to stand in for it. */
  problem?: unknown;
}

export const DEFAULT_RETRY: RetryPolicy = { baseMs: 1000, factor: 2, capMs: 3_600_000 };

/** A random whole number of milliseconds from 0 to min(cap, base * factor^attempt). */
export function retryDelayMs(
  attempt: number,
  policy: RetryPolicy = DEFAULT_RETRY,
  random: () => number = Math.random,
): number {
  const growth = policy.factor ** Math.max(0, attempt || 0);
  const ceiling = Math.min(policy.capMs, policy.baseMs * growth, MAX_DELAY_MS);
  const delayMs = Math.floor(random() * ceiling);
  // NaN arises from a base of 0 times an infinite growth, and from a broken random; 0 is safe.
  return delayMs > 0 ? Math.min(delayMs, MAX_DELAY_MS) : 0;
}

/** Checks the user's retry option and returns the function that answers for each failed attempt. */
export function resolveRetry(
  retry: RetryOptions | RetryFunction | undefined,
  random: () => number = Math.random,
): (attempt: number, error: unknown) => RetryDelay {
  if (typeof retry === 'function') {
    return (attempt, error) => {
      try {
        return { delayMs: askFunction(retry, attempt, error, random) };
      } catch (thrown) {
        // Even undefined can be thrown, and would then look like no problem at all.
        const problem = thrown ?? new Error(`the retry function threw ${thrown}`);
        return { delayMs: retryDelayMs(attempt, DEFAULT_RETRY, random), problem };
      }
    };
  }
  const policy = checkPolicy(retry);
  return (attempt) => ({ delayMs: retryDelayMs(attempt, policy, random) });
}

function askFunction(
  retry: RetryFunction,
  attempt: number,
  error: unknown,
  random: () => number,
): number {
  const answer: unknown = retry({ attempt, error, random });
  if (answer instanceof Promise) {
    // Nobody will wait for it, and a rejection that nobody handles would end the process.
    answer.catch(() => {});
    throw invalid(
      'the retry function returned a promise; the default delay was used; make it synchronous',
    );
  }
  const delayMs = durationMs(answer as Duration, 'the delay that the retry function returned');
  return Math.min(delayMs, MAX_DELAY_MS);
}

function checkPolicy(retry: unknown): RetryPolicy {
  if (retry === undefined) return DEFAULT_RETRY;
  if (typeof retry !== 'object' || retry === null) {
    throw invalid(
      `retry must be an object { base, factor, cap } or a function, got ${shown(retry)}`,
    );
  }
  checkKnown(retry, OPTIONS, 'retry', 'No definition was made.');
  const { base, factor = DEFAULT_RETRY.factor, cap } = retry as RetryOptions;
  if (!Number.isFinite(factor) || factor < 1) {
    throw invalid(`retry.factor must be a number from 1 on, got ${shown(factor)}`);
  }
  const bounds = { max: MAX_DELAY_MS };
  return {
    baseMs: durationMs(base ?? DEFAULT_RETRY.baseMs, 'retry.base', bounds),
    factor,
    capMs: durationMs(cap ?? DEFAULT_RETRY.capMs, 'retry.cap', bounds),
  };
}
