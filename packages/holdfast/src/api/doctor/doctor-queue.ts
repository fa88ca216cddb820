/** One queue in depth. */
import { ringOwners } from '../../fleet/ring.js';
import type { Limits } from '../../inspect/doctor/doctor.js';
import {
  isFailing,
  judgeAttempts,
  judgeOwners,
  judgeUnhandled,
  judgeWaits,
} from '../../inspect/doctor/fleet.js';
import {
  judgeLimitLocks,
  judgeMaintenanceLock,
  readMaintenanceLock,
} from '../../inspect/doctor/locks.js';
import { judgeHeldKeys } from '../../inspect/doctor/pauses.js';
import { judgeRates, judgeSchedules } from '../../inspect/doctor/queues.js';
import { judgeStopped } from '../../inspect/doctor/stopped.js';
import {
  judgeBuckets,
  judgePositions,
  readBuckets,
  readPositions,
} from '../../inspect/doctor/tables.js';
import { findStopped, type Stopped } from '../../inspect/explain/stopped.js';
import { recentAttempts } from '../../inspect/fleet/reports.js';
import { findUnhandled } from '../../inspect/fleet/unhandled.js';
import { isLive, type WorkerRow } from '../../inspect/fleet/workers.js';
import { commonError } from '../../inspect/job/failures.js';
import { heldKeys } from '../../inspect/queue/held-keys.js';
import { dueOf, dueUnder, jobsOf, rateLine, readLimits } from '../../inspect/queue/limits.js';
import { overdueMs } from '../../inspect/queue/oldest.js';
import type { QueueRow } from '../../inspect/queue/queues.js';
import { limitLocks } from '../../inspect/reading/row-locks.js';
import { waitingLong } from '../../inspect/run/waits.js';
import { maintenanceLock } from '../../maintenance/election.js';
import type { Names } from '../../postgres/names.js';
import { membersOf, ringOwner } from '../look/ring.js';
import type { DoctorTarget, Round } from './doctor-round.js';

const LONG_WAIT_MS = 30 * 24 * 3_600_000;

/** Another finding names these types, with the same fix. */
const isUnhandled = ({ reason, types }: Stopped, said: readonly string[]) =>
  ['no_handler', 'version_too_new', 'no_body'].includes(reason.code) &&
  types.every((type) => said.includes(type));

/** `workers`: also the dead; null when they could not be read. `at`: by the server's clock. */
export async function lookAtQueue(
  { schema }: DoctorTarget,
  round: Round,
  queue: QueueRow,
  workers: readonly WorkerRow[] | null,
  at: number,
  limits: Limits,
): Promise<void> {
  const names: Names = { schema, queue: queue.name };
  const keyed = queue.ordering !== 'none';
  const idleMs = queue.maintainedAt === null ? null : at - Date.parse(queue.maintainedAt);
  if (queue.ordering === 'key_strict')
    await round.check('held keys', async (db) =>
      judgeHeldKeys(queue.name, await heldKeys(db, names), at),
    );
  await round.check('maintenance lock', async (db) => {
    const holders = await readMaintenanceLock(db, names, maintenanceLock(names));
    return judgeMaintenanceLock(queue.name, holders, limits, idleMs);
  });
  await round.check('limit lock', async (db) =>
    judgeLimitLocks(queue.name, await limitLocks(db, names, null)),
  );
  await round.check('rates', async (db) => {
    const rows = (await readLimits(db, names, queue.name)).filter((row) => row.rateLimit !== null);
    const due = await dueUnder(db, names, rows, keyed);
    const paced = rows.flatMap((row) => {
      const { rateLimit, ratePerMs, type } = row;
      const own = dueOf(row, due, rows);
      const line = rateLine(row, own);
      if (!line || rateLimit === null || ratePerMs === null) return [];
      const rate = { limit: rateLimit, perMs: ratePerMs };
      return [{ ...{ queue: queue.name, type, rate, waiting: jobsOf(own) }, ...line }];
    });
    return judgeRates(queue.name, paced, limits);
  });
  const alive = (workers ?? []).filter(({ status }) => status === 'alive');
  if (keyed && workers) {
    round.add(judgeOwners(queue, workers, ringOwners(membersOf(alive, queue.name)), limits));
  }
  if (workers && alive.some(isLive) && !queue.paused) {
    const how = { keyed, graceMs: limits.unhandledMs };
    const unhandled = await round.read('unhandled', (db) => findUnhandled(db, names, how));
    if (unhandled) round.add(judgeUnhandled(queue, unhandled, limits));
    const said = (unhandled ?? []).map(({ type }) => type);
    await round.check('stopped', async (db) => {
      const found = await findStopped(db, schema, { queue, workers, limits, ringOwner });
      return judgeStopped(
        queue.name,
        found.filter((one) => !isUnhandled(one, said)),
        limits,
      );
    });
  }
  await round.check('waiting runs', async (db) =>
    judgeWaits(queue, await waitingLong(db, names, LONG_WAIT_MS), at),
  );
  const recent = recentAttempts(workers ?? [], limits.silentMs).get(queue.name);
  if (recent) {
    const most = isFailing(recent, limits)
      ? await round.read('failing attempts', (db) => commonError(db, names, keyed))
      : null;
    round.add(judgeAttempts(queue.name, recent, most, limits));
  }
  const overdue = await round.read('schedules', (db) => overdueMs(db, names));
  if (overdue !== null) round.add(judgeSchedules(queue.name, overdue, limits));
  await round.check('sequence', async (db) =>
    judgePositions(names, await readPositions(db, names)),
  );
  await round.check('buckets', async (db) =>
    judgeBuckets(names, keyed, await readBuckets(db, names)),
  );
}
