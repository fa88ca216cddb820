/**
 * The functions of the schema and of each queue, as they are now. To change one, edit its file: `migrate` replaces it. In an
 * order in which they can be made.
 */
import type { FunctionFile } from './function-file.js';
import { countWaiting } from './functions/enqueue/count-waiting.sql.js';
import { enqueue } from './functions/enqueue/enqueue.sql.js';
import { enqueueUnique } from './functions/enqueue/enqueue-unique.sql.js';
import { fill } from './functions/enqueue/fill.sql.js';
import { lockUnique } from './functions/enqueue/lock-unique.sql.js';
import { retakeUnique } from './functions/enqueue/retake-unique.sql.js';
import { takeKey } from './functions/enqueue/take-key.sql.js';
import { clusterId } from './functions/events/cluster-id.sql.js';
import { eventPage } from './functions/events/event-page.sql.js';
import { eventsWake } from './functions/events/events-wake.sql.js';
import { fleetChanged } from './functions/fleet/fleet-changed.sql.js';
import { schedulesChanged } from './functions/fleet/schedules-changed.sql.js';
import { wake } from './functions/fleet/wake.sql.js';
import { bucketOf } from './functions/job/bucket-of.sql.js';
import { checkJob } from './functions/job/check-job.sql.js';
import { deadLetterHook } from './functions/job/dead-letter-hook.sql.js';
import { newId } from './functions/job/new-id.sql.js';
import { rejectStaleFence } from './functions/job/reject-stale-fence.sql.js';
import { stateFits } from './functions/job/state-fits.sql.js';
import { allow } from './functions/limits/allow.sql.js';
import { legacy } from './functions/limits/legacy.sql.js';
import { limitsChanged } from './functions/limits/limits-changed.sql.js';
import { rateKeys } from './functions/limits/rate-keys.sql.js';
import { setLimit } from './functions/limits/set-limit.sql.js';
import { claimCall, settleCalls } from './functions/protocol/calls.sql.js';
import { claimVerbs } from './functions/protocol/claims.sql.js';
import { maintain } from './functions/protocol/maintain.sql.js';
import { beat, register } from './functions/protocol/registry.sql.js';
import { settleOne, words } from './functions/protocol/settle-one.sql.js';
import { maintenanceVerbs, ownerVerbs } from './functions/protocol/verbs.sql.js';
import { holds, workKeys, workTime } from './functions/protocol/work.sql.js';
import { workClaim, workOrdered } from './functions/protocol/work-claim.sql.js';
import { archiveVerbs } from './functions/queue/archive-verbs.sql.js';
import { audit } from './functions/queue/audit.sql.js';
import { claim } from './functions/queue/claim.sql.js';
import { due, dueQueues } from './functions/queue/due.sql.js';
import { pruneArchive } from './functions/queue/prune-archive.sql.js';
import { queueOrdered } from './functions/queue/queue-ordered.sql.js';
import { suspects } from './functions/queue/suspects.sql.js';
import { held } from './functions/turns/held.sql.js';
import { room } from './functions/turns/room.sql.js';
import { turns } from './functions/turns/turns.sql.js';
import { turnsChoose } from './functions/turns/turns-choose.sql.js';
import { turnsLine } from './functions/turns/turns-line.sql.js';
import { turnsWalk } from './functions/turns/turns-walk.sql.js';
import { signal } from './functions/workflow/signal.sql.js';
import { arrive, suspend } from './functions/workflow/suspend.sql.js';
import { childrenEnded, wakeRun } from './functions/workflow/wake-run.sql.js';

export const FUNCTIONS: readonly FunctionFile[] = [
  newId,
  bucketOf,
  stateFits,
  checkJob,
  wakeRun,
  childrenEnded,
  deadLetterHook,
  audit,
  fleetChanged,
  queueOrdered,
  schedulesChanged,
  limitsChanged,
  rejectStaleFence,
  takeKey,
  enqueueUnique,
  lockUnique,
  retakeUnique,
  fill,
  enqueue,
  wake,
  countWaiting,
  pruneArchive,
  archiveVerbs,
  held,
  turnsLine,
  turnsWalk,
  turnsChoose,
  turns,
  room,
  suspects,
  setLimit,
  allow,
  rateKeys,
  due,
  dueQueues,
  claim,
  legacy,
  arrive,
  suspend,
  signal,
  eventsWake,
  eventPage,
  clusterId,
  register,
  beat,
  words,
  settleCalls,
  claimCall,
  ownerVerbs,
  maintenanceVerbs,
  claimVerbs,
  settleOne,
  maintain,
  holds,
  workTime,
  workKeys,
  workOrdered,
  workClaim,
];
