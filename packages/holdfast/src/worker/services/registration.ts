/**
 * A worker's entry in the registry: made at the start, made anew under a new id after it was declared dead, marked when
 * it drains and given up when it leaves. At the end a database that does not answer is not waited for.
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import {
  type Bodies,
  type Handles,
  leave,
  lockKeyOf,
  markDraining,
  register,
} from '../../fleet/registry.js';
import { VERSION } from '../../job/options/version.js';
import { LAST_MS, within } from '../../postgres/connect/backoff.js';
import { LATEST } from '../../schema/migrations.js';
import type { SharedDeps } from '../deps.js';
import type { Settings } from '../options.js';
import { type ReachableDeps, untilReachable } from '../reachable.js';

/** Its `halt` is aborted when the worker stops. */
interface RegistrationDeps extends ReachableDeps, Pick<SharedDeps, 'engine' | 'schema' | 'log'> {
  readonly handles: Handles;
  readonly bodies: Bodies | null;
  readonly metadata: object;
}

export function newWorkerId(): string {
  return `${hostname()}-${process.pid}-${randomBytes(3).toString('hex')}`;
}

export type Registration = ReturnType<typeof newRegistration>;

export function newRegistration(firstId: string, deps: RegistrationDeps) {
  const { engine, schema, handles, bodies, metadata, halt, log, reportError } = deps;
  const names = { schema, queue: 'inbox' };
  /** Those that are registered, or may yet be. */
  const entered = new Set<string>();
  let id = firstId;
  /** It was declared dead, and there is no new one yet. */
  let dead = false;

  async function enter(as = id): Promise<void> {
    // The start is not waited for by a stop, and may come here after it.
    if (halt.aborted) return;
    entered.add(as);
    return register(engine, names, { id: as, lockKey: lockKeyOf(as), handles, bodies, metadata });
  }

  async function leaveAs(as: string, releasedAll: boolean): Promise<void> {
    if (!entered.has(as)) return;
    const left = leave(engine, names, as, releasedAll).catch((error) =>
      reportError('leaving the registry', error),
    );
    await within(LAST_MS, left);
  }

  return {
    enter: () => enter(),
    leave: (releasedAll: boolean) => leaveAs(id, releasedAll),
    get id() {
      return id;
    },
    /** Whether this is the present id, and was not declared dead. */
    isOurs: (one: string) => one === id && !dead,
    /** The id was declared dead. False: the worker stops, and has left the registry by itself. */
    async enterAgain(): Promise<boolean> {
      dead = true;
      if (halt.aborted) return false;
      log.warn({ worker: id }, 'this worker was declared dead; it registers under a new id');
      const next = newWorkerId();
      // For as long as it takes: a worker that is not registered owns nothing.
      await untilReachable(deps, 'registering again', () => enter(next), true);
      if (halt.aborted) await leaveAs(next, true);
      else [id, dead] = [next, false];
      return !dead;
    },
    /** Says that the worker drains. Returns how to wait for that to be said, for a while. */
    announceDrain(): () => Promise<void> {
      const said = markDraining(engine, names, id).catch((error) =>
        reportError('announcing the drain', error),
      );
      return () => within(LAST_MS, said);
    },
  };
}

export function metadataOf(settings: Settings): object {
  const { concurrency, leaseMs, heartbeatMs, ttlMs, metadata } = settings;
  return {
    ...{ host: hostname(), pid: process.pid, node: process.version },
    ...{ holdfast: VERSION, migrations: LATEST },
    ...{ concurrency, ...metadata, leaseMs, heartbeatMs, ttlMs },
  };
}
