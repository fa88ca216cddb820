/** What a person holds back, with who, when and why; and keys that dead letters hold. */
import type { HeldKeys } from '../queue/held-keys.js';
import type { QueueOverview } from '../queue/overview.js';
import type { PauseAct } from '../queue/paused-by.js';
import type { QueueRow } from '../queue/queues.js';
import { firstFew, firstLine, many, shellWord, span } from '../reading/words.js';
import { type Finding, lines, note, ok, problem } from './doctor.js';

const NAMED = 10;

/** ` by ann (role app) 3 h ago: "disputed"`; '' if the audit does not know. `at`: now, by the server's clock. */
export function byWhom(acts: readonly PauseAct[], which: (act: PauseAct) => boolean, at: number) {
  const last = acts.find(which);
  if (!last) return '';
  const { actor, role, reason } = last;
  const who = actor === null ? `role ${role}` : `${actor} (role ${role})`;
  const why = reason === null ? '' : `: "${firstLine(reason, 100)}"`;
  return ` by ${who} ${span(at - Date.parse(last.at))} ago${why}`;
}

const filterOf = ({ filter }: PauseAct) => (filter ?? {}) as Record<string, unknown>;

const ofQueue = (queue: string) => (act: PauseAct) =>
  act.act === 'pause' && act.queue === queue && act.filter === null;

const ofPart = (queue: string, part: 'type' | 'key', name: string) => (act: PauseAct) =>
  act.act === 'pause' && act.queue === queue && filterOf(act)[part] === name;

const waiting = ({ counts }: Pick<QueueOverview, 'counts'>) =>
  `${counts.approximate ? 'about ' : ''}${many(counts.pending, 'job')}`;

/** Empty: nothing of the queue is paused. */
export function judgePaused(
  { queue, counts }: Pick<QueueOverview, 'queue' | 'counts'>,
  acts: readonly PauseAct[],
): Finding[] {
  const { name, pausedTypes, pausedKeys } = queue;
  const at = Date.parse(counts.size.at);
  if (queue.paused)
    return [
      note(
        'paused',
        `The queue "${name}" is paused${byWhom(acts, ofQueue(name), at)} with ${waiting({ counts })} waiting.`,
        'It takes jobs and none of them runs.',
        `holdfast queues resume ${name}`,
      ),
    ];
  const parts = [
    ...pausedTypes.map((type) => `the type ${type}${byWhom(acts, ofPart(name, 'type', type), at)}`),
    ...pausedKeys.map((key) => `the key ${key}${byWhom(acts, ofPart(name, 'key', key), at)}`),
  ];
  if (parts.length === 0) return [];
  const of = parts.length === 1 ? 'is' : 'are';
  return [
    note(
      'paused',
      `Of the queue "${name}" ${firstFew(parts, NAMED, 'part', '; ')} ${of} paused, with ${counts.approximate ? 'at least ' : ''}${many(counts.onHold, 'job')} waiting.`,
      'Their jobs are accepted and none of them runs.',
      lines(...resumes(queue)),
    ),
  ];
}

function resumes({ name, pausedTypes, pausedKeys }: QueueRow): string[] {
  const all = [
    ...pausedTypes.map((type) => `--type ${shellWord(type)}`),
    ...pausedKeys.map((key) => `--partition-key ${shellWord(key)}`),
  ].map((option) => `holdfast queues resume ${name} ${option}`);
  const more = all.length - NAMED;
  return more > 0 ? [...all.slice(0, NAMED), `and ${more} more: holdfast queues ls --json`] : all;
}

/** `names`: the schedules that are paused. */
export function judgePausedSchedules(
  names: readonly string[],
  acts: readonly PauseAct[],
  at: number,
): Finding[] {
  if (names.length === 0) return [];
  const each = names.map((name) => {
    const own = (act: PauseAct) =>
      act.act === 'pause_schedule' && (act.changes as { schedule?: unknown })?.schedule === name;
    return `"${name}"${byWhom(acts, own, at)}`;
  });
  return [
    note(
      'paused schedules',
      `${many(names.length, 'schedule')} ${names.length === 1 ? 'is' : 'are'} paused: ${firstFew(each, NAMED, 'schedule', '; ')}.`,
      'They make no jobs, and what they miss meanwhile is caught up as each says.',
      lines(...names.slice(0, NAMED).map((name) => `holdfast schedules resume ${shellWord(name)}`)),
    ),
  ];
}

/** `at`: now, by the server's clock. */
export function judgeHeldKeys(queue: string, held: HeldKeys, at: number): Finding {
  const check = 'held keys';
  const { keys, more, oldest, key, type, diedAt, error } = held;
  if (oldest === null || type === null)
    return ok(check, `${queue}: no dead letter holds a key that has due jobs`);
  const since = diedAt === null ? '' : ` for ${span(at - Date.parse(diedAt))}`;
  const finding = problem(
    check,
    `${more ? 'At least ' : ''}${many(keys, 'key')} of "${queue}" ${keys === 1 ? 'is' : 'are'} held by dead letters, and due jobs wait behind them. ` +
      `The oldest is ${key}, held${since} by job ${oldest} (${type}): ${firstLine(error)}.`,
    'In this queue a dead letter holds its key until somebody retries or discards it.',
    lines(
      'Mend the cause, then let the oldest run again:',
      `holdfast jobs retry ${oldest}`,
      'or give it up, and those behind it run:',
      `holdfast jobs discard ${oldest}`,
      `All of them: holdfast dead-letters ls --queue ${queue}`,
    ),
  );
  const without = finding.text.slice(0, finding.text.lastIndexOf(`: ${firstLine(error)}`));
  return { ...finding, quotes: { queue, type, without: `${without}.` } };
}
