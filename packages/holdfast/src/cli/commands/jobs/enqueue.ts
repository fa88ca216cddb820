/**
 * `holdfast enqueue TYPE [PAYLOAD]`: one job, or with --lines one for every line of stdin, in one transaction and in their
 * order. Only the application knows the schema of the payload, so the worker checks it.
 */
import { ACTING } from '../../../api/act/acts.js';
import { many } from '../../../inspect/reading/words.js';
import { type EnqueueOptions, job } from '../../../job/job.js';
import { defined } from '../../../job/options/known-options.js';
import type { UniqueOptions } from '../../../job/unique.js';
import { withTransaction } from '../../../postgres/connect/pool.js';
import type { Call, Given } from '../../command.js';
import { UsageError } from '../../failures.js';
import { mistypedJob } from '../../mistyped.js';
import {
  countIfGiven,
  countOption,
  dueOptions,
  parsePayload,
  priorityOption,
  readStdin,
} from '../../parse/values.js';

function headersOf(list: readonly string[] | undefined): Record<string, string> | undefined {
  if (!list) return undefined;
  return Object.fromEntries(
    list.map((word) => {
      const at = word.indexOf('=');
      // Not quoted: it may be a value whose name was forgotten.
      if (at < 1) throw new UsageError('--header takes NAME=VALUE; one of them has no name.');
      return [word.slice(0, at), word.slice(at + 1)];
    }),
  );
}

const NOTHING = 'nothing was enqueued';

/** Checked where it is used, with a message that names what is allowed. */
function uniqueOf(given: Given): { unique?: UniqueOptions } {
  const key = given.text('unique');
  const terms = defined({
    while: given.text('while'),
    onConflict: given.text('on-conflict'),
    window: given.text('window'),
  });
  if (key !== undefined) return { unique: { key, ...terms } as UniqueOptions };
  if (Object.keys(terms).length === 0) return {};
  throw new UsageError(
    '--while, --on-conflict and --window say what --unique KEY means; give it as well.',
  );
}

async function payloadsOf({ args, given }: Call): Promise<unknown[]> {
  const [, payload, ...rest] = args;
  if (!given.flag('lines')) {
    if (!args[0] || rest.length > 0)
      throw new UsageError(`Write: holdfast enqueue TYPE ['{"some": "JSON"}' | -]`);
    return [parsePayload(payload === '-' ? await readStdin() : (payload ?? '{}'), NOTHING)];
  }
  if (!args[0] || (payload !== undefined && payload !== '-') || rest.length > 0)
    throw new UsageError('Write: holdfast enqueue TYPE --lines, with a payload a line on stdin.');
  if (given.text('idempotency-key') !== undefined)
    throw new UsageError('One idempotency key is one job: give --lines or --idempotency-key.');
  const lines = (await readStdin()).split('\n');
  return lines.flatMap((line, n) =>
    line.trim() === '' ? [] : [parsePayload(line, NOTHING, `Line ${n + 1}`)],
  );
}

export async function run(call: Call): Promise<void> {
  const { args, given, session, out } = call;
  const payloads = await payloadsOf(call);
  const type = args[0] as string;
  const queue = given.text('queue') ?? 'inbox';
  const definition = job(type, { queue, version: countOption(given, 'job-version', 1) });
  const options: object = {
    ...defined({
      partitionKey: given.text('partition-key'),
      group: given.text('group'),
      idempotencyKey: given.text('idempotency-key'),
      priority: priorityOption(given),
      maxAttempts: countIfGiven(given, 'max-attempts'),
      headers: headersOf(given.texts('header')),
    }),
    ...dueOptions(given),
    ...uniqueOf(given),
  };
  const [row] = await session.queues([queue]);
  const { holdfast } = await import('../../../holdfast.js');
  const hf = holdfast({
    ...{ ...session.address, pool: session.pool, schema: session.schema },
    strictTypes: given.flag('strict'),
  });
  // Asked before: then a job of this type that waits is another one.
  const doubt = given.flag('strict') ? null : await mistypedJob(session, queue, type);
  const items = payloads.map((value) => definition.item(value, options as EnqueueOptions));
  const enqueued = await withTransaction(
    session.pool,
    (tx) => hf.enqueueMany(items, { tx }),
    ACTING,
  );
  for (const one of enqueued)
    await (out.json ? out.value({ ...one, queue, type }) : out.line(one.id));
  if (doubt) out.note(doubt);
  if (enqueued.some(({ replaced }) => replaced))
    out.note('That job waited under this unique key; it was replaced.');
  else if (enqueued.some(({ deduplicated }) => deduplicated))
    out.note('A job with this key exists already; nothing was added.');
  if (given.flag('lines') && given.text('partition-key') !== undefined && row?.ordering === 'none')
    out.note(`"${queue}" is read by time: jobs of one key may run side by side there.`);
  if (given.flag('lines')) out.note(`${many(enqueued.length, 'job')} enqueued.`);
}
