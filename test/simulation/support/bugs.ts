/** Planted bugs: each replaces a part of a real statement when it is loaded, or takes a safety net away. */
import type { Rewrite } from './server.js';

export interface Bug {
  readonly name: string;
  /** It is found within so many schedules, from this seed on (default 1). */
  readonly within: number;
  readonly from?: number;
  readonly rewrite: Rewrite;
  /** No notification arrives, and nobody polls. */
  readonly deaf?: boolean;
}

const replace =
  (marker: string, part: string | RegExp, by: string): Rewrite =>
  (text) =>
    text.includes(marker) ? text.replace(part, by) : text;

export const BUGS: readonly Bug[] = [
  {
    name: 'a completion without the fence of owner and generation',
    // From seed 1 on it takes 224.
    from: 300,
    within: 60,
    rewrite: replace(
      'AS done(id, generation)',
      /AND i\.lease_generation = done\.generation\s+AND i\.claimed_by = \$1::text/,
      'AND $1::text IS NOT NULL',
    ),
  },
  {
    name: 'a recovery that does not ask again whether the owner is gone',
    within: 50,
    rewrite: replace('orphans', 'AND (i.lease_expires_at <= now() OR h.dead)', ''),
  },
  {
    name: 'a claim that takes what a live owner holds',
    within: 50,
    rewrite: replace('seen_until', /i\.lease_expires_at <= now\(\)/, 'true'),
  },
  {
    name: 'a cursor that is never rewound',
    within: 50,
    rewrite: replace(
      'seen_until',
      '> (p.after_at, p.after_position)',
      "> (greatest(p.after_at, now() - interval '100 milliseconds'), p.after_position)",
    ),
  },
  {
    name: 'an order guard that does not see running jobs',
    within: 50,
    rewrite: replace(
      'WITH RECURSIVE walk',
      'WHERE NOT i.parked',
      "WHERE NOT i.parked AND i.status <> 'processing'",
    ),
  },
  {
    name: 'a death that is declared without a look at the lock',
    within: 50,
    rewrite: (text) =>
      text.replace(
        /\(NOT concat\(\$2::integer, ':', \w\.lock_key\) = ANY \(.*?, ','\)\)\)/,
        '$2::integer IS NOT NULL',
      ),
  },
  {
    name: 'a claim that does not raise the generation',
    within: 50,
    rewrite: (text) =>
      text.replace(
        'lease_generation = i.lease_generation + 1',
        'lease_generation = greatest(i.lease_generation, 1)',
      ),
  },
  {
    name: 'lost wake-ups and no poll',
    within: 50,
    rewrite: (text) => text,
    deaf: true,
  },
];
