/** The crontab of graphile-worker: `* * * * * task ?id=a&fill=1d&max=3 { "a": 1 }`, in UTC. */
import type { SourceSchedule } from './source.js';

const LINE = /^((?:\S+\s+){5})([_a-zA-Z][_a-zA-Z0-9:/-]*)(?:\s+\?([^\s]+))?(?:\s+(\{.*\}))?\s*$/;

/** Lower is first there, too. */
export const priorityOf = (priority: number) => (priority < 0 ? 1 : priority === 0 ? 2 : 3);

const MOVED = ['id', 'fill', 'max', 'queue', 'priority'];

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
  const lost = [...given.keys()].filter((name) => !MOVED.includes(name));
  return {
    ...{ id: `${number}`, from: task ?? `line ${number}`, names: [task ?? ''] },
    suffix: id === task ? '' : id,
    ...{ cron: cron.trim(), everyMs: null, timezone: null, payload },
    partitionKey: given.get('queue'),
    priority: priorityOf(Number(given.get('priority') ?? 0)),
    maxAttempts: given.has('max') ? Number(given.get('max')) : null,
    catchUp: given.has('fill') ? 'all' : 'none',
    stays: task ? problem : `line ${number} cannot be read`,
    warnings: [
      'there is no `_cron` in the payload here',
      ...(lost.length > 0 ? [`${lost.join(', ')} is not moved`] : []),
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
