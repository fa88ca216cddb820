/** Planted bugs: each replaces a part of a real statement when it is loaded, or takes a safety net away. */
import type { Rewrite } from '../../../packages/lab/src/simulation/server.js';

export interface Bug {
  readonly name: string;
  /** It is found within so many schedules, from this seed on. */
  readonly within: number;
  /** The first that found it when it was planted; from 1 on it takes a little longer, or as long as is said. */
  readonly from: number;
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
    // From seed 1 on it takes as many.
    from: 224,
    within: 50,
    rewrite: replace(
      "'completed', last_error",
      /AND \(\(i\.id, i\.lease_generation\) IN .*? IS TRUE\s+AND i\.claimed_by = \$1::text|AND i\.lease_generation = done\.generation\s+AND i\.claimed_by = \$1::text/,
      'AND $1::text IS NOT NULL',
    ),
  },
  {
    name: 'a recovery that does not ask again whether the owner is gone',
    from: 7,
    within: 50,
    rewrite: replace('orphans', 'AND (i.lease_expires_at <= now() OR h.dead)', ''),
  },
  {
    name: 'a claim that takes what a live owner holds',
    from: 2,
    within: 50,
    rewrite: replace('seen_until', /i\.lease_expires_at <= now\(\)/g, 'true'),
  },
  {
    name: 'a cursor that is never rewound',
    from: 1,
    within: 50,
    rewrite: replace(
      'seen_until',
      /> \(l\.after_at, l\.after_position\)/g,
      "> (greatest(l.after_at, now() - interval '100 milliseconds'), l.after_position)",
    ),
  },
  {
    name: 'an order guard that does not see running jobs',
    from: 7,
    within: 50,
    rewrite: replace(
      'WITH RECURSIVE open_queue',
      'WHERE NOT i.parked',
      "WHERE NOT i.parked AND i.status <> 'processing'",
    ),
  },
  {
    name: 'a death that is declared without a look at the lock',
    from: 7,
    within: 50,
    rewrite: (text) =>
      text.replace(
        /\(NOT pg_catalog\.concat\(\$2::integer, ':', \w\.lock_key\) OPERATOR\(pg_catalog\.=\) ANY \(.*?, ','\)\)\)/,
        '$2::integer IS NOT NULL',
      ),
  },
  {
    name: 'a claim that does not raise the generation',
    from: 1,
    within: 50,
    rewrite: (text) =>
      text.replace(
        'lease_generation = i.lease_generation + 1',
        'lease_generation = greatest(i.lease_generation, 1)',
      ),
  },
  {
    name: 'lost wake-ups and no poll',
    from: 7,
    within: 50,
    rewrite: (text) => text,
    deaf: true,
  },
];
