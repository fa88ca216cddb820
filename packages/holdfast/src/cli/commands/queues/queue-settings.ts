/** `holdfast queues set | drop`: what is set on a queue, and its end. */
import { type QueueOptions, removeQueue, setQueue } from '../../../api/act/queue-settings.js';
import { describePaused, type QueueRow } from '../../../inspect/queue/queues.js';
import { many, span } from '../../../inspect/reading/words.js';
import { withTransaction } from '../../../postgres/connect/pool.js';
import { type QueueLoss, queueLoss } from '../../../schema/drop-queue.js';
import { actOptions } from '../../actor.js';
import { confirmed } from '../../ask/confirm.js';
import { type Call, EXIT, type Given } from '../../command.js';
import { UsageError } from '../../failures.js';
import { countOption } from '../../parse/filters.js';
import { turnOptions } from '../../parse/turn-options.js';
import { oneName } from './queues.js';

function onOff(text: string): boolean {
  if (text === 'on' || text === 'off') return text === 'on';
  throw new UsageError(`--notify must be on or off, not "${text}".`);
}

/** `0` is a time as well. */
const time = (text: string) => (text === '0' ? 0 : text);

function settingsOf(given: Given): QueueOptions {
  const part = <Value>(option: string, name: string, of: (text: string) => Value) => {
    const text = given.text(option);
    return text === undefined ? {} : { [name]: of(text) };
  };
  return {
    ...part('archive-retention', 'archiveRetention', time),
    ...part('idempotency-retention', 'idempotencyRetention', time),
    ...part('effect-retention', 'effectRetention', time),
    ...part('audit-retention', 'auditRetention', time),
    ...part('age-after', 'ageAfter', time),
    ...part('max-pending', 'maxPending', (text) =>
      text === 'off' ? text : countOption(given, 'max-pending', 1),
    ),
    ...part('max-payload-bytes', 'maxPayloadBytes', () =>
      countOption(given, 'max-payload-bytes', 1),
    ),
    ...part('notify', 'notify', onOff),
    // Checked where they are used, with a message that names what is allowed.
    ...part('ordering', 'ordering', String),
    ...part('dead-letters', 'deadLetters', String),
    ...turnOptions(given),
  } as QueueOptions;
}

const SETTINGS: Readonly<Record<string, (row: QueueRow) => string>> = {
  ordering: ({ ordering }) => ordering,
  'per key': ({ perKey }) => String(perKey ?? 'any number'),
  'per group': ({ perGroup }) => String(perGroup ?? 'any number'),
  fair: ({ fair }) => (fair ? 'yes' : 'no'),
  weights: ({ weights }) => (Object.keys(weights).length > 0 ? JSON.stringify(weights) : 'none'),
  paused: (row) => (row.paused ? 'yes' : describePaused(row) || 'no'),
  'archive retention': (row) => span(row.archiveRetentionMs),
  'idempotency retention': (row) => span(row.idempotencyRetentionMs),
  'effect retention': (row) => span(row.effectRetentionMs),
  'audit retention': (row) => span(row.auditRetentionMs),
  'age after': (row) => (row.ageAfterMs === null ? 'off' : span(row.ageAfterMs)),
  'max pending': ({ maxPending }) => maxPending?.toLocaleString('en') ?? 'off',
  'max payload bytes': (row) => row.maxPayloadBytes.toLocaleString('en'),
};

async function show({ out }: Call, before: QueueRow, after: QueueRow): Promise<void> {
  if (out.json) return out.value(after);
  for (const [name, of] of Object.entries(SETTINGS)) {
    const [was, is] = [of(before), of(after)];
    const changed = was === is ? '' : ` (was ${was})`;
    await out.line(`${out.paint(name.padEnd(22), 'dim')} ${is}${changed}`);
  }
}

export async function runSet(call: Call): Promise<void> {
  const { args, given, session, out } = call;
  const name = oneName(args, 'set');
  const [row] = (await session.queues([name])) as [QueueRow];
  const settings = settingsOf(given);
  if (Object.keys(settings).length === 0) {
    await show(call, row, row);
    out.note('Nothing was set; holdfast queues set --help lists what can be.');
    return;
  }
  const names = session.names(name);
  const { before, after } = await setQueue(session.pool, names, settings, actOptions(given));
  await show(call, before, after);
  if (settings.notify !== undefined)
    out.note(`An insert ${settings.notify ? 'wakes' : 'does not wake'} workers that sleep.`);
}

const lost = ({ archived, keys, markers }: QueueLoss) =>
  `${many(archived, 'finished job')}, ${many(keys, 'idempotency key')} and ${many(markers, 'effect marker')}`;

export async function runDrop(call: Call): Promise<number> {
  const { args, given, session, out } = call;
  const name = oneName(args, 'drop');
  await session.queues([name]);
  const loss = await withTransaction(session.pool, (client) =>
    queueLoss(client, session.schema, name),
  );
  const doing = `drop queue "${name}" with ${lost(loss)}`;
  if (given.flag('dry-run')) {
    if (out.json) await out.value({ queue: name, dropped: false, ...loss });
    out.note(`This would ${doing}. Nothing was done.`);
    return EXIT.ok;
  }
  if (!(await confirmed(call, doing))) return EXIT.failed;
  const gone = await removeQueue(session.pool, session.names(name), actOptions(given));
  await (out.json ? out.value({ queue: name, dropped: true, ...gone }) : out.line(name));
  out.note(`Queue "${name}" was dropped with ${lost(gone)}.`);
  return EXIT.ok;
}
