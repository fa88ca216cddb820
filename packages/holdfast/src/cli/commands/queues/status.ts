/** `holdfast status`: every queue and every worker at a glance. */
import { ringOwner } from '../../../api/look/ring.js';
import { grantFix } from '../../../inspect/doctor/rights.js';
import { describeStopped } from '../../../inspect/doctor/stopped.js';
import { markStopped, type Stopped } from '../../../inspect/explain/stopped.js';
import { stateOf } from '../../../inspect/fleet/workers.js';
import {
  type PartialOverview,
  queueFigures,
  readableOverview,
} from '../../../inspect/queue/overview.js';
import { tableText } from '../../../inspect/reading/rights.js';
import { many } from '../../../inspect/reading/words.js';
import { type Call, EXIT } from '../../command.js';
import { plain } from '../../print/table.js';
import { busyText, lockedPart, noteLocked, queueColumns, workerValue } from '../../print/views.js';

export async function run({ given, session, out }: Call): Promise<number> {
  const wanted = given.texts('queue');
  if (wanted) await session.queues(wanted);
  const { seen, lacking, denied } = await readableOverview(
    (work) => session.read(work),
    session.schema,
    { queues: wanted, withRates: true },
  );
  if (!seen) throw denied;
  const { queues, stopped } = await session.read((db, part) =>
    markStopped(db, part, session.schema, seen.queues, ringOwner),
  );
  await show({ ...seen, queues }, stopped, out);
  const exit = noteLocked(out, seen.locked);
  if (!lacking) return exit;
  const list = lacking.missing.map((one) => tableText(session.schema, one)).join(', ');
  const fix = grantFix(session.schema, 'viewer', lacking);
  out.note(
    `${lacking.user} may not read ${list}: this is not all. As the owner of the schema: ${fix}`,
  );
  return EXIT.failed;
}

async function show(
  seen: PartialOverview,
  stopped: readonly Stopped[],
  out: Call['out'],
): Promise<void> {
  const complete = seen.locked.length === 0;
  if (out.json) {
    await out.value({
      queues: seen.queues.map(queueFigures),
      workers: seen.workers.map((worker) => workerValue(worker, complete)),
      ...lockedPart(seen.locked),
    });
    return;
  }
  await out.rows(seen.queues, queueColumns);
  await out.line('');
  for (const one of stopped)
    await out.line(
      `${out.paint('STOPPED', 'bad')} ${plain(`${describeStopped(one)}. ${one.reason.text}`)} holdfast doctor says what to do.`,
    );
  await out.line(workerLine(seen, complete));
  const asleep = seen.queues.reduce((sum, { counts }) => sum + counts.waitingRuns, 0);
  const approximate = seen.queues.some(({ counts }) => counts.approximate);
  if (asleep > 0)
    await out.line(
      `${approximate ? '~' : ''}${many(asleep, 'run')} of workflows wait for something, and are not pending: holdfast workflows ls`,
    );
  if (approximate) {
    out.note('~ is an estimate: the queue is too large to count at a glance.');
  }
}

function workerLine({ workers }: PartialOverview, complete: boolean): string {
  const of = (state: string) => workers.filter(({ worker }) => stateOf(worker) === state);
  const held = workers.reduce((sum, worker) => sum + worker.held, 0);
  const parts = [`${many(of('alive').length, 'worker')} alive`];
  if (of('draining').length > 0) parts.push(`${of('draining').length} draining`);
  if (of('silent').length > 0) parts.push(`${of('silent').length} silent for longer than the TTL`);
  const busy = busyText(workers.map(({ worker }) => worker));
  const holds = `${workers.length === 1 ? 'it holds' : 'they hold'} ${complete ? '' : 'at least '}${many(held, 'job')}`;
  return `${parts.join(', ')}; ${holds}${busy ? `; handlers busy: ${busy}` : ''}`;
}
