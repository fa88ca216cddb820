/** What is around the tables: the server's log, its WAL, the settings of the roles that work here; and which queues are in use. */
import { judgeLogging, readLogging } from '../../inspect/doctor/cause/logging.js';
import { judgeRoleSettings, readRoleSettings } from '../../inspect/doctor/cause/role-settings.js';
import { askRoles } from '../../inspect/doctor/cause/roles.js';
import {
  judgeArchiver,
  judgeSlots,
  judgeWal,
  readArchiver,
  readSlots,
  readWal,
} from '../../inspect/doctor/cause/wal.js';
import { emptyQueues } from '../../inspect/queue/empty.js';
import { overdueByQueue } from '../../inspect/queue/oldest.js';
import { isPartlyPaused, type QueueRow } from '../../inspect/queue/queues.js';
import type { DoctorTarget, Round } from './doctor-round.js';

const DENIED = '42501';

export async function lookAround({ schema }: DoctorTarget, round: Round): Promise<void> {
  await round.check('payloads in logs', async (db) => judgeLogging(await readLogging(db, schema)));
  await round.check('WAL', async (db) => [
    ...judgeSlots(await readSlots(db, schema)),
    ...judgeArchiver(await readArchiver(db, schema)),
  ]);
  const size = await round.attempt('WAL', () =>
    round.reading(async (db) => judgeWal(await readWal(db, schema))).catch(unlessDenied),
  );
  round.add(size ?? []);
  await round.check('settings of roles', async (db) => {
    const roles = await askRoles(db, schema, schema, []);
    const names = roles.map(({ role }) => role);
    return judgeRoleSettings(await readRoleSettings(db, schema, [...new Set(names)]));
  });
}

/** Only members of pg_monitor may see how much there is: for others it is no question. */
function unlessDenied(error: unknown): never[] {
  if ((error as { code?: unknown } | null)?.code === DENIED) return [];
  throw error;
}

/** Of many queues, those without a row are passed over, unless they are paused or a schedule of theirs is due. */
export async function inUse(schema: string, round: Round, listed: readonly QueueRow[]) {
  const found = await round.read('queues', async (db) => {
    const empty = await emptyQueues(db, schema, listed);
    return { empty, overdue: empty.size > 0 ? await overdueByQueue(db, schema) : new Map() };
  });
  if (!found) return listed;
  const { empty, overdue } = found;
  return listed.filter(
    (one) => !empty.has(one.name) || overdue.has(one.name) || one.paused || isPartlyPaused(one),
  );
}
