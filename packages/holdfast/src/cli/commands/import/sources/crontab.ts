/** The crontab of graphile-worker: `* * * * * task ?id=a&fill=1d&max=3 { "a": 1 }`, in UTC. */
import { type Fields, isFine, LOST, lossesOf } from './fields.js';
import type { SourceSchedule } from './source.js';

const KEY = 'the job key of a line is not moved: a schedule here gives its jobs none';

const LINE = /^((?:\S+\s+){5})([_a-zA-Z][_a-zA-Z0-9:/-]*)(?:\s+\?([^\s]+))?(?:\s+(\{.*\}))?\s*$/;

/** The options of a line. */
export const CRONTAB_OPTIONS: Fields = {
  id: { to: 'the name' },
  fill: {
    to: "catchUp: 'all'",
    lost: 'how far back `fill` goes is not moved: `catchUp` has no such limit',
  },
  max: { to: 'maxAttempts' },
  queue: { to: 'the partition key' },
  priority: { to: 'the priority', lost: LOST.priority, when: isFine },
  jobKey: { lost: KEY },
  jobKeyMode: { lost: KEY },
};

/** What `max` is without a word, there and in add_job(). */
const MAX_ATTEMPTS = 25;

/** Lower is first there, too. */
export const priorityOf = (priority: number) => (priority < 0 ? 1 : priority === 0 ? 2 : 3);

export function crontabOf(text: string): SourceSchedule[] {
  return text.split(/\r?\n/).flatMap((line, n) => {
    const trimmed = line.trim();
    return trimmed === '' || trimmed.startsWith('#') ? [] : [lineOf(trimmed, n + 1)];
  });
}

function lineOf(line: string, number: number): SourceSchedule {
  const [, cron = '', task, options = '', json] = LINE.exec(line) ?? [];
  const given = new URLSearchParams(options);
  const id = given.get('id') ?? task ?? `line ${number}`;
  const { payload, problem } = payloadOf(json);
  return {
    ...{ id: `${number}`, from: task ?? `line ${number}`, names: [task ?? ''] },
    suffix: id === task ? '' : id,
    ...{ cron: cron.trim(), everyMs: null, timezone: null, payload },
    partitionKey: given.get('queue'),
    priority: priorityOf(Number(given.get('priority') ?? 0)),
    maxAttempts: given.has('max') ? Number(given.get('max')) : MAX_ATTEMPTS,
    catchUp: given.has('fill') ? 'all' : 'none',
    stays: task ? problem : `line ${number} cannot be read`,
    warnings: [
      'its jobs get no `_cron` in their payload here',
      ...lossesOf(CRONTAB_OPTIONS, Object.fromEntries(given), '?'),
    ],
  };
}

function payloadOf(json: string | undefined): { payload: unknown; problem: string | null } {
  try {
    return { payload: json === undefined ? {} : JSON.parse(json), problem: null };
  } catch {
    return { payload: {}, problem: 'its payload is JSON5; write it as JSON in the file' };
  }
}
