/**
 * The functions of the schema and of each queue, as they are now. To change one, edit its file: `migrate` replaces it. In an
 * order in which they can be made.
 */
import type { FunctionFile } from './function-file.js';
import { allow } from './functions/allow.sql.js';
import { audit } from './functions/audit.sql.js';
import { bucketOf } from './functions/bucket-of.sql.js';
import { checkJob } from './functions/check-job.sql.js';
import { claim } from './functions/claim.sql.js';
import { countWaiting } from './functions/count-waiting.sql.js';
import { due, dueQueues } from './functions/due.sql.js';
import { enqueue } from './functions/enqueue.sql.js';
import { enqueueUnique } from './functions/enqueue-unique.sql.js';
import { fill } from './functions/fill.sql.js';
import { fleetChanged } from './functions/fleet-changed.sql.js';
import { held } from './functions/held.sql.js';
import { legacy } from './functions/legacy.sql.js';
import { limitsChanged } from './functions/limits-changed.sql.js';
import { lockUnique } from './functions/lock-unique.sql.js';
import { newId } from './functions/new-id.sql.js';
import { pruneArchive } from './functions/prune-archive.sql.js';
import { queueOrdered } from './functions/queue-ordered.sql.js';
import { rateKeys } from './functions/rate-keys.sql.js';
import { rejectStaleFence } from './functions/reject-stale-fence.sql.js';
import { room } from './functions/room.sql.js';
import { schedulesChanged } from './functions/schedules-changed.sql.js';
import { setLimit } from './functions/set-limit.sql.js';
import { stateFits } from './functions/state-fits.sql.js';
import { takeKey } from './functions/take-key.sql.js';
import { turns } from './functions/turns.sql.js';
import { turnsChoose } from './functions/turns-choose.sql.js';
import { turnsLine } from './functions/turns-line.sql.js';
import { turnsWalk } from './functions/turns-walk.sql.js';
import { wake } from './functions/wake.sql.js';

export const FUNCTIONS: readonly FunctionFile[] = [
  newId,
  bucketOf,
  stateFits,
  checkJob,
  audit,
  fleetChanged,
  queueOrdered,
  schedulesChanged,
  limitsChanged,
  rejectStaleFence,
  takeKey,
  enqueueUnique,
  lockUnique,
  fill,
  enqueue,
  wake,
  countWaiting,
  pruneArchive,
  held,
  turnsLine,
  turnsWalk,
  turnsChoose,
  turns,
  room,
  setLimit,
  allow,
  rateKeys,
  due,
  dueQueues,
  claim,
  legacy,
];
