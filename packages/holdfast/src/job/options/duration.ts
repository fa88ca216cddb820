// Every span of time that a user passes: a number of milliseconds, or a text such as '250ms', '30s', '15m', '2h', '7d'
// (decimals allowed). The result is a whole number of milliseconds inside the bounds; anything else is refused.

import { invalid, shown } from '../errors/holdfast-error.js';

/** Milliseconds, or a text: '250ms', '30s', '15m', '2h', '7d'. */
export type Duration = number | `${number}${keyof typeof UNIT_MS}`;

/** Ten years: a longer delay is a mistake, and it stays far inside what Postgres can add to now(). */
export const MAX_DELAY_MS = 3650 * 86_400_000;

export const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

const TEXT = /^(\d{1,16}(?:\.\d{1,9})?)(ms|s|m|h|d)$/;

export function durationMs(
  value: Duration | string,
  what: string,
  bounds: { min?: number; max?: number } = {},
): number {
  const exact = toMs(value);
  // Adding 0 turns -0, which prints and compares oddly further on, into 0.
  const ms = Math.round(exact) + 0;
  // NaN, Infinity and whatever a whole number cannot hold exactly all fail here.
  if (!Number.isSafeInteger(ms) || exact < 0) {
    throw invalid(
      `${what} must be a duration, got ${shown(value)}; ` +
        `give milliseconds as a number, or text such as '250ms', '30s', '15m', '2h' or '7d'` +
        `${boundsText(bounds)}`,
    );
  }
  if (ms < (bounds.min ?? 0) || ms > (bounds.max ?? Number.MAX_SAFE_INTEGER)) {
    throw invalid(`${what} is out of range, got ${shown(value)}${boundsText(bounds)}`);
  }
  return ms;
}

function toMs(value: unknown): number {
  if (typeof value === 'number') return value;
  const parts = typeof value === 'string' ? TEXT.exec(value) : null;
  return parts ? Number(parts[1]) * UNIT_MS[parts[2] as keyof typeof UNIT_MS] : Number.NaN;
}

function boundsText({ min, max }: { min?: number; max?: number }): string {
  if (min === undefined && max === undefined) return '';
  if (max === undefined) return `; it must be at least ${textOf(min as number)}`;
  if (min === undefined) return `; it must be at most ${textOf(max)}`;
  return `; it must be from ${textOf(min)} to ${textOf(max)}`;
}

/** In the largest unit that it is a multiple of. */
function textOf(ms: number): string {
  const [unit, size] = Object.entries(UNIT_MS).findLast(([, one]) => ms % one === 0) as [
    string,
    number,
  ];
  return ms === 0 ? '0' : `${ms / size}${unit}`;
}
