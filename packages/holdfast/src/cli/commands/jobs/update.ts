/**
 * `holdfast jobs update ID`: another payload, time or priority for a job that waits. Only the application knows the schema
 * of the payload, so the worker checks it.
 */
import { showJob } from '../../../inspect/job/show.js';
import { defined } from '../../../job/options/known-options.js';
import { actOptions } from '../../actor.js';
import type { Call, Given } from '../../command.js';
import { Failure, UsageError } from '../../failures.js';
import { dueOptions, oneId, parsePayload, priorityOption, readStdin } from '../../parse/values.js';

async function changesOf(given: Given) {
  const payload = given.text('payload');
  const text = payload === '-' ? await readStdin() : payload;
  return {
    ...(text !== undefined && { payload: parsePayload(text, 'the job was not changed') }),
    ...defined({ priority: priorityOption(given) }),
    ...dueOptions(given),
  };
}

export async function run({ args, given, session, out }: Call): Promise<void> {
  const id = oneId(args);
  const changes = await changesOf(given);
  if (Object.keys(changes).length === 0)
    throw new UsageError('Say what to change: --payload, --priority, --delay or --run-at.');
  const named = given.text('queue');
  const queues = await session.queueNames(named === undefined ? undefined : [named]);
  const job = await session.read((db) => showJob(db, session.schema, queues, id));
  if (!job) throw new Failure(`No job ${id} is in ${queues.join(', ')}; nothing was changed.`);
  const { holdfast } = await import('../../../holdfast.js');
  const hf = holdfast({ ...session.address, pool: session.pool, schema: session.schema });
  await hf.update(id, changes, { queue: job.queue, ...actOptions(given) });
  await (out.json ? out.value({ id, queue: job.queue, updated: true }) : out.line(id));
}
