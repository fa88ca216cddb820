/** Moving all deliveries of an endpoint: due again when it is enabled, ended when it is removed. */
import { cancelFor, discardJobs, retryAndHint } from '../../api/act/acts.js';
import { hintQueue } from '../../fleet/wake.js';
import type { Executor } from '../../postgres/queryable.js';
import type { Deps } from './deps.js';
import { find, wake } from './rows/deliveries.js';

/** So many jobs are moved in one statement. */
const CHUNK = 5_000;

type Of = { readonly id: string; readonly ordered: boolean };
type Places = Pick<Deps, 'names' | 'orderedNames'>;

/** Where the deliveries of an endpoint are. */
export const queueOf = ({ names, orderedNames }: Places, { ordered }: Of) =>
  ordered ? orderedNames : names;

/** In the transaction that enables it, so that nothing is replayed of one that stays disabled. Returns how many. */
export async function replay(db: Executor, places: Places, of: Of, failed: boolean) {
  const where = queueOf(places, of);
  let moved = 0;
  for (;;) {
    const woken = await wake(db, where, of, CHUNK);
    await hintQueue(db, where, woken);
    moved += woken.length;
    if (woken.length < CHUNK) break;
  }
  while (failed) {
    const dead = await find(db, where, of.id, 'dead_letter', CHUNK);
    const ids = dead.map(({ id }) => id);
    if (ids.length > 0) moved += (await retryAndHint(db, where, ids)).length;
    if (ids.length < CHUNK) break;
  }
  return moved;
}

/** Returns how many have ended. */
export async function cancelAll(db: Executor, places: Places, of: Of) {
  const where = queueOf(places, of);
  const cancelled = cancelFor('its endpoint was removed');
  let ended = 0;
  for (;;) {
    const some = await find(db, where, of.id, null, CHUNK);
    const ids = (dead: boolean) =>
      some.filter(({ status }) => (status === 'dead_letter') === dead).map(({ id }) => id);
    const [live, dead] = [ids(false), ids(true)];
    if (live.length > 0) ended += (await cancelled(db, where, live)).length;
    if (dead.length > 0) ended += (await discardJobs(db, where, dead)).length;
    if (some.length < CHUNK) return ended;
  }
}
