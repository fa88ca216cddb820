/**
 * A type or a key may be named before its first job is there, so an unknown name is no error; the operator is told. The act
 * is done by then, so an error here is not shown.
 */
import { knownTypes, nearestType } from '../inspect/fleet/known-types.js';
import { listWorkers, versionsOf } from '../inspect/fleet/workers.js';
import { seenNames } from '../inspect/queue/queues.js';
import { nearest } from '../job/options/nearest.js';
import type { QueuePart } from '../operate/queue.js';
import type { Session } from './session.js';

/** Null: it is known, or nothing could be read. */
export async function mistyped(
  session: Session,
  queue: string,
  part: QueuePart,
): Promise<string | null> {
  const [what, name] =
    'type' in part ? (['type', part.type] as const) : (['key', part.key] as const);
  try {
    return await session.read(async (db) => {
      const workers = what === 'type' ? await listWorkers(db, session.schema) : [];
      const handled = Object.keys(versionsOf(workers, queue));
      if (handled.includes(name)) return null;
      const seen = await seenNames(db, session.names(queue), what);
      if (seen.includes(name)) return null;
      const nobody = what === 'type' ? 'no live worker handles it and ' : '';
      return `Is the ${what} "${name}" mistyped? In queue "${queue}" ${nobody}no such job was found.${nearest(name, [...new Set([...handled, ...seen])])}`;
    });
  } catch {
    return null;
  }
}

/** Of a job that is about to be enqueued; null: its type is known, nothing is near, or nothing could be read. */
export async function mistypedJob(
  session: Session,
  queue: string,
  type: string,
): Promise<string | null> {
  try {
    const known = await session.read((db) => knownTypes(db, session.names(queue)));
    const meant = nearestType(type, known);
    // Before the first worker starts, every type is new.
    const isNew = known.attested.size > 0 && !known.attested.has(type) && !known.waiting.has(type);
    if (meant === '' && !isNew) return null;
    return `No worker handles the type "${type}" in queue "${queue}", and no such job has run there.${meant}`;
  } catch {
    return null;
  }
}
