/**
 * A worker's entry in the registry: made at the start, made anew under a new id after it was declared dead, marked when
 * it drains and given up when it leaves. At the end a database that does not answer is not waited for.
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { type Handles, leave, lockKeyOf, markDraining, register } from '../../fleet/registry.js';
import { VERSION } from '../../job/options/version.js';
import { LAST_MS, within } from '../../postgres/connect/backoff.js';
import { LATEST } from '../../schema/migrations.js';
import type { SharedDeps } from '../deps.js';
import type { Settings } from '../options.js';
import { type ReachableDeps, untilReachable } from '../reachable.js';

/** Its `halt` is aborted when the worker stops. */
interface RegistrationDeps extends ReachableDeps, Pick<SharedDeps, 'engine' | 'schema' | 'log'> {
  readonly handles: Handles;
  readonly metadata: object;
}

export function newWorkerId(): string {
  return `${hostname()}-${process.pid}-${randomBytes(3).toString('hex')}`;
}

export class Registration {
  readonly #deps: RegistrationDeps;
  readonly #names: { readonly schema: string; readonly queue: string };
  /** Those that are registered, or may yet be. */
  readonly #entered = new Set<string>();
  #id: string;
  /** It was declared dead, and there is no new one yet. */
  #dead = false;

  constructor(id: string, deps: RegistrationDeps) {
    this.#id = id;
    this.#deps = deps;
    this.#names = { schema: deps.schema, queue: 'inbox' };
  }

  get id(): string {
    return this.#id;
  }

  /** Whether this is the present id, and was not declared dead. */
  isOurs(id: string): boolean {
    return id === this.#id && !this.#dead;
  }

  async enter(id = this.#id): Promise<void> {
    const { engine, handles, metadata, halt } = this.#deps;
    // The start is not waited for by a stop, and may come here after it.
    if (halt.aborted) return;
    this.#entered.add(id);
    return register(engine, this.#names, { id, lockKey: lockKeyOf(id), handles, metadata });
  }

  /** The id was declared dead. False: the worker stops, and has left the registry by itself. */
  async enterAgain(): Promise<boolean> {
    const { halt, log } = this.#deps;
    this.#dead = true;
    if (halt.aborted) return false;
    log.warn({ worker: this.#id }, 'this worker was declared dead; it registers under a new id');
    const next = newWorkerId();
    // For as long as it takes: a worker that is not registered owns nothing.
    await untilReachable(this.#deps, 'registering again', () => this.enter(next), true);
    if (halt.aborted) await this.#leave(next, true);
    else [this.#id, this.#dead] = [next, false];
    return !this.#dead;
  }

  /** Says that the worker drains. Returns how to wait for that to be said, for a while. */
  announceDrain(): () => Promise<void> {
    const { engine, reportError } = this.#deps;
    const said = markDraining(engine, this.#names, this.#id).catch((error) =>
      reportError('announcing the drain', error),
    );
    return () => within(LAST_MS, said);
  }

  leave(releasedAll: boolean): Promise<void> {
    return this.#leave(this.#id, releasedAll);
  }

  async #leave(id: string, releasedAll: boolean): Promise<void> {
    const { engine, reportError } = this.#deps;
    if (!this.#entered.has(id)) return;
    const left = leave(engine, this.#names, id, releasedAll).catch((error) =>
      reportError('leaving the registry', error),
    );
    await within(LAST_MS, left);
  }
}

export function metadataOf(settings: Settings): object {
  const { concurrency, leaseMs, heartbeatMs, ttlMs, metadata } = settings;
  return {
    ...{ host: hostname(), pid: process.pid, node: process.version },
    ...{ holdfast: VERSION, migrations: LATEST },
    ...{ concurrency, ...metadata, leaseMs, heartbeatMs, ttlMs },
  };
}
