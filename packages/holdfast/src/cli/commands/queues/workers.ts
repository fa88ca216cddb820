/** `holdfast workers ls | drain`. */
import { drain } from '../../../api/act/acts.js';
import { listWorkers } from '../../../inspect/fleet/workers.js';
import { openOverview } from '../../../inspect/queue/overview.js';
import { nearest } from '../../../job/options/nearest.js';
import { actOptions } from '../../actor.js';
import type { Call } from '../../command.js';
import { Failure } from '../../failures.js';
import { noteLocked, workerColumns, workerValue } from '../../print/views.js';

export async function runList({ given, session, out }: Call): Promise<number> {
  const { workers, locked } = await session.read((db, part) =>
    openOverview(db, part, session.schema, { withDead: given.flag('all') }),
  );
  const complete = locked.length === 0;
  if (out.json) for (const worker of workers) await out.value(workerValue(worker, complete));
  else if (workers.length > 0) await out.rows(workers, workerColumns(complete));
  else out.note('No worker is registered.');
  return noteLocked(out, locked);
}

export async function runDrain({ args, given, session, out }: Call): Promise<void> {
  const id = args[0] as string;
  const was = await drain(session.pool, session.schema, id, actOptions(given));
  if (was === null || was === 'dead') {
    const known = (await session.read((db) => listWorkers(db, session.schema))).map(({ id }) => id);
    const what = was === 'dead' ? `Worker "${id}" is dead` : `There is no worker "${id}"`;
    throw new Failure(`${what}; nothing was done.${nearest(id, known)}`);
  }
  await (out.json ? out.value({ worker: id, was, status: 'draining' }) : out.line(id));
  out.note(
    was === 'draining'
      ? `Worker "${id}" is draining already.`
      : `Worker "${id}" was asked to drain: it learns it with its next heartbeat, claims nothing more and ends with exit code 0 when what it holds is done.`,
  );
}
