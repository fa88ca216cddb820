/** `holdfast workers ls | drain`. */
import { drain } from '../../api/acts.js';
import { overview } from '../../inspect/overview.js';
import { nearest } from '../../job/nearest.js';
import { actOptions } from '../actor.js';
import { type Call, Failure, UsageError } from '../command.js';
import { workerColumns, workerValue } from '../views.js';

export async function runList({ given, session, out }: Call): Promise<void> {
  const seen = await session.read((db) =>
    overview(db, session.schema, { withDead: given.flag('all') }),
  );
  if (out.json) {
    for (const worker of seen.workers) await out.value(workerValue(worker));
    return;
  }
  if (seen.workers.length > 0) await out.rows(seen.workers, workerColumns);
  else out.note('No worker is registered.');
}

export async function runDrain({ args, given, session, out }: Call): Promise<void> {
  const [id, ...rest] = args;
  if (!id || rest.length > 0) throw new UsageError('Write: holdfast workers drain ID');
  const was = await drain(session.pool, session.schema, id, actOptions(given));
  if (was === null || was === 'dead') {
    const seen = await session.read((db) => overview(db, session.schema));
    const known = seen.workers.map(({ worker }) => worker.id);
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
