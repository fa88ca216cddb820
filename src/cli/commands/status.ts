/** `holdfast status`: every queue and every worker at a glance. */
import type { QueueOverview, WorkerOverview } from '../../inspect/overview.js';
import { overview, queueFigures } from '../../inspect/overview.js';
import { many } from '../../inspect/words.js';
import type { Call } from '../command.js';
import { queueColumns, workerValue } from '../views.js';

export async function run({ given, session, out }: Call): Promise<void> {
  const wanted = given.texts('queue');
  if (wanted) await session.queues(wanted);
  const seen = await session.read((db) =>
    overview(db, session.schema, { ...(wanted && { queues: wanted }) }),
  );
  if (out.json) {
    await out.value({
      queues: seen.queues.map(queueFigures),
      workers: seen.workers.map(workerValue),
    });
    return;
  }
  await out.rows<QueueOverview>(seen.queues, queueColumns);
  await out.line('');
  await out.line(workerLine(seen.workers));
  if (seen.queues.some(({ counts }) => counts.approximate)) {
    out.note('~ is an estimate: the queue is too large to count at a glance.');
  }
}

export function workerLine(workers: readonly WorkerOverview[]): string {
  const of = (status: string) => workers.filter(({ worker }) => worker.status === status);
  const held = workers.reduce((sum, worker) => sum + worker.held, 0);
  const silent = of('alive').filter(({ worker }) => worker.silentMs > 30_000).length;
  const parts = [`${many(of('alive').length, 'worker')} alive`];
  if (of('draining').length > 0) parts.push(`${of('draining').length} draining`);
  if (silent > 0) parts.push(`${silent} silent for more than 30 s`);
  return `${parts.join(', ')}; ${workers.length === 1 ? 'it holds' : 'they hold'} ${many(held, 'job')}`;
}
