/**
 * `holdfast enqueue TYPE [PAYLOAD]`: one job from the command line. The payload is JSON, as an argument or
 * from stdin with `-`. It is not checked against the schema of the type's definition, which only the
 * application knows: the worker checks it.
 */
import { durationMs } from '../../job/duration.js';
import { job } from '../../job/job.js';
import { type Call, UsageError } from '../command.js';
import { countOption } from '../filters.js';

async function readStdin(): Promise<string> {
  let text = '';
  for await (const chunk of process.stdin.setEncoding('utf8')) text += chunk;
  return text;
}

/** The message of JSON.parse quotes the text, which may be a secret. */
function parsePayload(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError(
      `The payload is not JSON; nothing was enqueued. Quote it for the shell: '{"orderId": 9182}'.`,
    );
  }
}

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

export async function run({ args, given, session, out }: Call): Promise<void> {
  const [type, payload, ...rest] = args;
  if (!type || rest.length > 0) {
    throw new UsageError(`Write: holdfast enqueue TYPE ['{"some": "JSON"}' | -]`);
  }
  const queue = given.text('queue') ?? 'inbox';
  const definition = job(type, { queue, version: countOption(given, 'job-version', 1) });
  const value = parsePayload(payload === '-' ? await readStdin() : (payload ?? '{}'));
  const [key, idempotencyKey, delay] = ['key', 'idempotency-key', 'delay'].map((name) =>
    given.text(name),
  );
  const headers = headersOf(given.texts('header'));
  await session.queues([queue]);
  const { holdfast } = await import('../../holdfast.js');
  const hf = holdfast({
    connectionString: session.url,
    pool: session.pool,
    schema: session.schema,
  });
  const enqueued = await hf.enqueue(definition, value, {
    ...(key !== undefined && { key }),
    ...(idempotencyKey !== undefined && { idempotencyKey }),
    ...(delay !== undefined && { delay: durationMs(delay, '--delay') }),
    ...(given.text('priority') !== undefined && { priority: countOption(given, 'priority', 2) }),
    ...(given.text('max-attempts') !== undefined && {
      maxAttempts: countOption(given, 'max-attempts', 5),
    }),
    ...(headers && { headers }),
  });
  await (out.json ? out.value({ ...enqueued, queue, type }) : out.line(enqueued.id));
  if (enqueued.deduplicated)
    out.note('This idempotency key stands for that job already; nothing was added.');
}
