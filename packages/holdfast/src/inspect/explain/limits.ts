/** A job whose type, or whose queue, is limited in the whole fleet: no permit is free, or no token is there. */
import type { LimitRow } from '../queue/limits.js';
import { many, span } from '../reading/words.js';
import { MAX_AHEAD } from './facts/line.js';
import type { Situation } from './facts/situation.js';
import { clock, type Reason, sinceMs } from './reasons.js';

const whose = ({ type, queue }: LimitRow) =>
  type === null ? `jobs of queue "${queue}"` : `"${type}" jobs`;
const commandFor = ({ type, queue }: LimitRow) =>
  `holdfast limits set${type === null ? '' : ` ${type}`}${queue === 'inbox' ? '' : ` --queue ${queue}`}`;

function rateText(row: LimitRow): string {
  const { rateLimit, ratePerMs, keyed } = row;
  const each = keyed ? ' of each key' : '';
  return `at most ${(rateLimit ?? 0).toLocaleString('en')} ${whose(row)}${each} start in ${span(ratePerMs ?? 0)}, in the whole fleet`;
}

export function rateLimited(situation: Situation): Reason | null {
  const { limits: found, job } = situation;
  const rates = found?.limits.filter(({ row }) => row.rateLimit !== null) ?? [];
  // A job has one rate: that of its type, or else that of its queue.
  const limit = rates.find(({ row }) => row.type !== null) ?? rates[0];
  if (!found?.line?.opensAt || !limit || sinceMs(situation, job.runAt) < 0) return null;
  const { row } = limit;
  return {
    code: 'rate_limited',
    text: `It is due${startText(situation, row)}: ${rateText(row)}.`,
    fix: `${commandFor(row)} --rate N/TIME lets more start`,
    // All that is ahead of it, and it, in a minute.
    soon: `${commandFor(row)} --rate ${(found.line.ahead ?? 0) + 1 + (row.rateLimit ?? 0)}/1m`,
  };
}

/** When it may start, if its place among the jobs of its rate is known, or else when the next of them may. */
function startText(situation: Situation, row: LimitRow): string {
  const { opensAt, limitKey, ahead } = situation.limits?.line ?? {};
  const at = (laterMs: number) => {
    const ms = Date.parse(opensAt ?? '') + laterMs;
    return `${clock(new Date(ms).toISOString())} (in ${span(ms - situation.nowMs)})`;
  };
  const next = `the next job may start at ${at(0)}`;
  // Lines are of one type, and of one key if the job has one.
  const known = row.type !== null && row.keyed === (limitKey !== null);
  if (ahead === null || ahead === undefined || !known) return `, and ${next}`;
  if (ahead === 0) return ` and comes next, at ${at(0)}`;
  const like = `of its type${row.keyed ? ` and key ${limitKey}` : ''}`;
  if (ahead >= MAX_AHEAD)
    return `; ${MAX_AHEAD.toLocaleString('en')} or more jobs ${like} are ahead of it, and ${next}`;
  const pace = (row.ratePerMs ?? 0) / (row.rateLimit ?? 1);
  return (
    `; ${many(ahead, 'job')} ${like} ${ahead === 1 ? 'is' : 'are'} ahead of it, so it may start at about ` +
    `${at(ahead * pace)}, and ${next}`
  );
}

export function limitReached({ limits: found }: Situation): Reason | null {
  const full = found?.limits.find(
    ({ row, running }) => row.concurrency !== null && running >= row.concurrency,
  );
  if (!full) return null;
  const { row, running } = full;
  const most = row.concurrency ?? 0;
  return {
    code: 'limit_reached',
    text:
      `It waits for a free permit: ${running.toLocaleString('en')} of ${many(most, 'permit')} for ${whose(row)} ` +
      'are taken in the whole fleet.',
    fix: `Wait until one of them ends, or ${commandFor(row)} --concurrency ${most + 1}`,
  };
}
