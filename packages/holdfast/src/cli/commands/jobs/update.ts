/**
 * `holdfast jobs update ID`: another payload, time or priority for a job that waits. The payload is not checked
 * against the schema of the type's definition, which only the application knows: the worker checks it.
 */
import { showJob } from '../../../inspect/job/show.js';
import { actOptions } from '../../actor.js';
import type { Call, Given } from '../../command.js';
import { Failure, UsageError } from '../../failures.js';
import { dueOptions, priorityOption } from '../../parse/filters.js';
import { oneId } from '../../parse/ids.js';
import { parsePayload, readStdin } from '../../parse/payload.js';

async function changesOf(given: Given) {
  const payload = given.text('payload');
  const text = payload === '-' ? await readStdin() : payload;
  return {
    ...(text !== undefined && { payload: parsePayload(text, 'the job was not changed') }),
    ...(given.text('priority') !== undefined && { priority: priorityOption(given) }),
    ...dueOptions(given),
  };
}

export async function run({ args, given, session, out }: Call): Promise<void> {
  const id = oneId(args, 'jobs update');
  const changes = await changesOf(given);
  if (Object.keys(changes).length === 0)
    throw new UsageError('Say what to change: --payload, --priority, --delay or --run-at.');
  const named = given.text('queue');
  const queues = (await session.queues(named === undefined ? undefined : [named])).map(
    (queue) => queue.name,
  );
  const job = await session.read((db) => showJob(db, session.schema, queues, id));
  if (!job) throw new Failure(`No job ${id} is in ${queues.join(', ')}; nothing was changed.`);
  const { holdfast } = await import('../../../holdfast.js');
  const hf = holdfast({
    ...session.address,
    pool: session.pool,
    schema: session.schema,
  });
  await hf.update(id, changes, { queue: job.queue, ...actOptions(given) });
  await (out.json ? out.value({ id, queue: job.queue, updated: true }) : out.line(id));
}
