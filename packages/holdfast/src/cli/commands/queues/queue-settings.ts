/** `holdfast queues set | drop`: what is set on a queue, and its end. */
import { type QueueOptions, removeQueue, setQueue } from '../../../api/act/queue-settings.js';
import { describePaused, type QueueRow } from '../../../inspect/queue/queues.js';
import { many, span } from '../../../inspect/reading/words.js';
import { defined } from '../../../job/options/known-options.js';
import { withTransaction } from '../../../postgres/connect/pool.js';
import { type QueueLoss, queueLoss } from '../../../schema/drop-queue.js';
import { actOptions } from '../../actor.js';
import { confirmed } from '../../ask.js';
import { type Call, EXIT, type Given } from '../../command.js';
import { countIfGiven, readOptions, switchOption } from '../../parse/values.js';

function settingsOf(given: Given): QueueOptions {
  /** `0` is a time as well. */
  const time = (name: string) => (given.text(name) === '0' ? 0 : given.text(name));
  const most = given.text('max-pending') === 'off' ? 'off' : countIfGiven(given, 'max-pending');
  const settings = {
    archiveRetention: time('archive-retention'),
    idempotencyRetention: time('idempotency-retention'),
    effectRetention: time('effect-retention'),
    auditRetention: time('audit-retention'),
    ageAfter: time('age-after'),
    maxPending: most,
    maxPayloadBytes: countIfGiven(given, 'max-payload-bytes'),
    notify: switchOption(given, 'notify'),
  } as const;
  // The times are checked where they are used.
  return { ...defined(settings), ...readOptions(given) } as QueueOptions;
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
  const facts = Object.entries(SETTINGS).map(([name, of]) => {
    const [was, is] = [of(before), of(after)];
    return [name, was === is ? is : `${is} (was ${was})`];
  });
  await out.facts(Object.fromEntries(facts), 22);
}

export async function runSet(call: Call): Promise<void> {
  const { args, given, session, out } = call;
  const name = args[0] as string;
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
  const name = args[0] as string;
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
