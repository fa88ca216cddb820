/** Workers that look healthy and are not: leaked handlers, and outcomes that the database refuses. */
import { keptIn, leakedIn } from '../fleet/trouble.js';
import type { WorkerRow } from '../fleet/workers.js';
import { firstFew, many } from '../reading/words.js';
import { type Finding, lines, note, ok, problem } from './doctor.js';

const NAMED = 5;

export function judgeTrouble(workers: readonly WorkerRow[]): Finding[] {
  return [judgeLeaked(workers), judgeKept(workers)];
}

function judgeLeaked(workers: readonly WorkerRow[]): Finding {
  const check = 'leaked handlers';
  const found = workers.flatMap(leakedIn).sort((a, b) => b.handlers - a.handlers);
  if (found.length === 0) return ok(check, 'no handler runs on without its job');
  const each = found.map(
    ({ worker, queue, type, handlers }) =>
      `${many(handlers, 'handler')} of ${type} (${queue}) in worker ${worker}`,
  );
  const ids = [...new Set(found.map(({ worker }) => worker))];
  return note(
    check,
    `Handlers run on although their jobs have left: ${firstFew(each, NAMED, 'type')}.`,
    'Their jobs were cancelled, timed out or lost. Their places are free again, but what they hold (memory, connections) is not.',
    lines(
      'Let the handler listen to ctx.signal, or give what it waits for a time limit. Until then restart or drain the worker:',
      ...ids.slice(0, NAMED).map((id) => `holdfast workers drain ${id}`),
    ),
  );
}

function judgeKept(workers: readonly WorkerRow[]): Finding {
  const check = 'refused outcomes';
  const found = workers.flatMap(keptIn).sort((a, b) => b.jobs - a.jobs);
  if (found.length === 0) return ok(check, 'the database takes how jobs end');
  const each = found.map(
    ({ worker, queue, jobs, why }) =>
      `${many(jobs, 'job')} of "${queue}" in worker ${worker} (${why})`,
  );
  return problem(
    check,
    `Jobs have ended and the database refuses to write it: ${firstFew(each, NAMED, 'queue')}.`,
    'Their outcomes are kept and tried again while the leases hold. A worker with as many as handlers starts nothing more; if it stops now, these jobs run again.',
    'Remove the reason: 42501 is a missing right (run node_modules/holdfast/dist/roles.sql as the owner of the schema), 42P01 a missing table (see "schema drift"), 55P03 a lock (see "locks"). Do not restart the workers before.',
  );
}
