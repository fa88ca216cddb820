/** A job that is due and that nothing of its own keeps: what comes before it, and whether a worker has a handler for it. */
import { deniedIn, keptIn, leakedIn } from '../fleet/reports.js';
import { firstFew, many, span } from '../reading/words.js';
import { type Ahead, MAX_AHEAD } from './facts/line.js';
import type { Situation } from './facts/situation.js';
import { type AbleWorker, describeAble, describeTrouble } from './facts/workers.js';
import { inTurn } from './key.js';
import { describeWorker, type Reason, type ReasonCode, sinceMs } from './reasons.js';

/** A free worker takes what it can run within about a second; after this long something is amiss. */
const OVERDUE_MS = 10_000;
const MOST_WORKERS = 3;

export function itsTurn(situation: Situation): Reason {
  const dueMs = sinceMs(situation, situation.job.runAt);
  const line = lineOf(situation);
  const busy = noneIsFree(situation);
  const text = (rest: string) => `It has been due for ${span(dueMs)}: ${line.text} ${rest}`;
  if (busy) return { ...busy, text: text(busy.text) };
  const free = situation.able.filter(({ state }) => state === 'free');
  if (line.isNext && dueMs > OVERDUE_MS && free.length > 0) {
    const names = firstFew(
      free.map(({ worker }) => worker.id),
      MOST_WORKERS,
      'worker',
    );
    return {
      code: 'waiting_its_turn',
      text: text(
        `${many(free.length, 'live worker')} can run it and ${has(free)} a free handler, but none has taken it.${refusedText(free)}`,
      ),
      fix: `Look at the log of ${names}, and run holdfast doctor`,
      untaken: free.map(({ worker }) => worker.id),
      ...(refusedText(free) !== '' && { refused: true }),
    };
  }
  return {
    code: 'waiting_its_turn',
    text: text(whoCan(situation)),
    fix: troubleFix(situation.able),
  };
}

/** What the database has refused to them within the last minute for want of a right. */
function refusedText(free: readonly AbleWorker[]): string {
  const said = new Set(free.flatMap(({ worker }) => deniedIn(worker)).map((one) => one.said));
  return said.size === 0
    ? ''
    : ` The database refuses: ${firstFew([...said], MOST_WORKERS, 'right', '; ')}.`;
}

function lineOf(situation: Situation): Line {
  if (situation.window) return inTurn(situation);
  return situation.keyed ? firstOfItsKey(situation) : byTime(situation.ahead, situation);
}

const has = (free: readonly unknown[]) => (free.length === 1 ? 'has' : 'have');

/** Null: somebody can take it, or may be able to. */
export function noneIsFree(situation: Situation): Reason | null {
  const { able, nowMs } = situation;
  if (able.length === 0) return null;
  if (able.some(({ state }) => state === 'free' || state === 'unsure')) return null;
  const having = (state: AbleWorker['state']) => able.some((one) => one.state === state);
  const code: ReasonCode = having('busy')
    ? 'handlers_busy'
    : having('alone')
      ? 'beside_suspect'
      : 'workers_silent';
  const each = byUse(able).map((one) => describeAble(one, nowMs));
  const who = able.length === 1 ? 'The only live worker' : `None of ${able.length} live workers`;
  const [has, does] = able.length === 1 ? ['has no', 'does not take'] : ['has a', 'takes'];
  const lacks = code === 'handlers_busy' ? `${has} free handler` : `${does} it now`;
  const [busiest] = byUse(able);
  const longest = busiest?.types[0]?.longest;
  return {
    code,
    text: `${who} that can run it ${lacks}: ${firstFew(each, MOST_WORKERS, 'worker', '; ')}.`,
    fix: troubleFix(able) ?? FIXES[code] ?? null,
    ...(busiest && longest && { longest: { job: longest, worker: busiest.worker.id } }),
  };
}

/** Null: none of them says that anything is wrong with it. */
function troubleFix(able: readonly AbleWorker[]): string | null {
  if (able.some(({ worker }) => keptIn(worker).length > 0))
    return 'Remove the reason for which the database refuses outcomes: holdfast doctor says what to do';
  const leaking =
    able.find(({ worker }) => leakedIn(worker).length > 0) ?? able.find(({ lost }) => lost > 0);
  return leaking
    ? `Restart worker ${leaking.worker.id}, or: holdfast workers drain ${leaking.worker.id}`
    : null;
}

const FIXES: Partial<Record<ReasonCode, string>> = {
  handlers_busy: 'Wait, add workers, or raise concurrency if the handlers mostly wait for others',
  workers_silent: 'Look at their machines; start a worker: holdfast work',
};

/** First those that will be free the latest: what runs for long is what an operator asks for. */
const byUse = (able: readonly AbleWorker[]) =>
  [...able].sort((a, b) => oldest(a).localeCompare(oldest(b)));
const oldest = ({ types }: AbleWorker) => types[0]?.oldestClaim ?? '~';

interface Line {
  readonly text: string;
  /** Nothing comes before it, for certain. */
  readonly isNext: boolean;
}

function byTime(found: Ahead | null, situation: Situation): Line {
  if (!found) return { text: 'what comes before it is not known.', isNext: false };
  const older = partOf(found.older, found.olderRead, 'older job');
  const urgent = partOf(found.moreUrgent, found.moreUrgentRead, 'due job');
  const before = [
    ...(older ? [`${older} of its priority`] : []),
    ...(urgent ? [`${urgent} of a priority before ${situation.job.priority}`] : []),
  ];
  if (before.length > 0) {
    const aged = urgent ? ageing(situation) : '';
    return { text: `before it come ${before.join(' and ')}.${aged}`, isNext: false };
  }
  if (found.olderRead >= MAX_AHEAD || found.moreUrgentRead >= MAX_AHEAD) {
    return {
      text:
        `the first ${MAX_AHEAD.toLocaleString('en')} jobs before it are running; ` +
        'what stands between them and this job was not counted.',
      isNext: false,
    };
  }
  const isFree = situation.able.some(({ state }) => state === 'free');
  return {
    text: `${isFree ? 'it is the next' : 'no other job comes before it'}.`,
    isNext: true,
  };
}

function ageing(situation: Situation): string {
  const { ageAfterMs } = situation.queue;
  if (ageAfterMs === null) return '';
  const share = 'gets a share of the claims whatever is more urgent';
  return sinceMs(situation, situation.job.runAt) > ageAfterMs
    ? ` It has been due for longer than ${span(ageAfterMs)}, so it ${share}.`
    : ` From ${span(ageAfterMs)} on it ${share}.`;
}

function partOf(jobs: number, read: number, noun: string): string | null {
  if (jobs === 0) return null;
  return read >= MAX_AHEAD ? `${jobs.toLocaleString('en')} or more ${noun}s` : many(jobs, noun);
}

function firstOfItsKey(situation: Situation): Line {
  const { job, owner } = situation;
  const text = 'it is the first of its key.';
  if (owner === null) return { text, isNext: true };
  return {
    text:
      `${text} Bucket ${job.partitionBucket} is read first by ${describeWorker(situation, owner)}; ` +
      'another worker takes the job if that one has no free handler.',
    isNext: true,
  };
}

function whoCan({ able, nowMs }: Situation): string {
  const jobs = able.reduce((sum, one) => sum + one.jobs, 0);
  const claims = able.flatMap(({ types }) => types.map((one) => one.oldestClaim ?? ''));
  const since = claims.filter(Boolean).sort()[0];
  const longest = since ? span(nowMs - Date.parse(since)) : null;
  const doing =
    jobs === 0
      ? 'none of them holds a job of this queue'
      : `they hold ${many(jobs, 'job')} of this queue${longest ? `, the longest for ${longest}` : ''}`;
  const trouble = able.flatMap(({ worker }) => {
    const words = describeTrouble(worker).replace(/^, and /, '');
    return words === '' ? [] : [` Of worker ${worker.id}: ${words}.`];
  });
  return `${many(able.length, 'live worker')} can run it; ${doing}.${trouble.slice(0, MOST_WORKERS).join('')}`;
}
