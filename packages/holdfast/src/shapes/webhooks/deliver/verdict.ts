/** What an answer means: delivered or not, and what the endpoint asks for. */
import type { Answer } from './post.js';

export interface Verdict {
  readonly delivered: boolean;
  /** 410: it wants no webhooks any more. */
  readonly gone: boolean;
  /** It asked to be left alone for so long; null: it did not. */
  readonly restMs: number | null;
  /** Why it failed, for `last_error`. */
  readonly why: string;
}

/** However long it asks for. */
const MAX_REST_MS = 86_400_000;
/** These are about the endpoint, and not about one delivery. */
const BUSY = new Set([429, 503]);

/** Seconds or a date; null: neither. */
export function retryAfterMs(value: string | undefined, now: number): number | null {
  if (value === undefined) return null;
  const text = value.trim();
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - now;
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), MAX_REST_MS);
}

export function verdictOf({ status, headers, error }: Answer, now = Date.now()): Verdict {
  const delivered = error === null && status !== null && status >= 200 && status < 300;
  const rest =
    status !== null && BUSY.has(status) ? retryAfterMs(headers['retry-after'], now) : null;
  const redirected = status !== null && status >= 300 && status < 400;
  const answered = `the endpoint answered ${status}${redirected ? ', and redirects are not followed' : ''}`;
  return {
    ...{ delivered, gone: status === 410, restMs: rest },
    why: error ?? answered,
  };
}
