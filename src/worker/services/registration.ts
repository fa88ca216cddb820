/**
 * A worker's entry in the registry: made at the start, made anew after it was declared dead, marked when it
 * drains and given up when it leaves. At the end a database that does not answer is not waited for.
 */
import { hostname } from 'node:os';
import { leave, lockKeyOf, markDraining, register } from '../../fleet/registry.js';
import { VERSION } from '../../job/version.js';
import { Backoff, LAST_MS, pause, within } from '../../postgres/backoff.js';
import type { Executor } from '../../postgres/queryable.js';
import type { Settings } from '../options.js';
import { handlesOf } from '../queues.js';
import type { Route } from '../run/attempt.js';

export interface RegistrationDeps {
  readonly engine: Executor;
  readonly schema: string;
  readonly routes: ReadonlyMap<string, Route>;
  readonly queues: readonly string[];
  readonly settings: Settings;
  /** Aborted when the worker is taken apart. */
  readonly halt: AbortSignal;
  readonly ending: () => boolean;
  readonly reportError: (what: string, error: unknown) => void;
}

export class Registration {
  readonly #deps: RegistrationDeps;
  readonly #names: { readonly schema: string; readonly queue: string };

  constructor(deps: RegistrationDeps) {
    this.#deps = deps;
    this.#names = { schema: deps.schema, queue: 'inbox' };
  }

  enter(id: string): Promise<void> {
    const { engine, routes, queues, settings } = this.#deps;
    return register(engine, this.#names, {
      id,
      lockKey: lockKeyOf(id),
      handles: handlesOf(routes, queues),
      metadata: metadataOf(settings),
    });
  }

  /** Tries for as long as it takes: a worker that is not registered owns nothing. False: it ends. */
  async enterAgain(id: string): Promise<boolean> {
    const { ending, reportError, halt } = this.#deps;
    const backoff = new Backoff();
    while (!ending()) {
      try {
        await this.enter(id);
        return !ending();
      } catch (error) {
        reportError('registering again', error);
        await pause(backoff.nextMs(), halt);
      }
    }
    return false;
  }

  /** Says that the worker drains. Returns how to wait for that to be said, for a while. */
  announceDrain(id: string): () => Promise<void> {
    const { engine, reportError } = this.#deps;
    const said = markDraining(engine, this.#names, id).catch((error) =>
      reportError('announcing the drain', error),
    );
    return () => within(LAST_MS, said);
  }

  async leave(id: string, releasedAll: boolean): Promise<void> {
    const { engine, reportError } = this.#deps;
    const left = leave(engine, this.#names, id, releasedAll).catch((error) =>
      reportError('leaving the registry', error),
    );
    await within(LAST_MS, left);
  }
}

/** What a worker tells of itself. */
export function metadataOf(settings: Settings): object {
  return {
    host: hostname(),
    pid: process.pid,
    node: process.version,
    holdfast: VERSION,
    concurrency: settings.concurrency,
    ...settings.metadata,
    leaseMs: settings.leaseMs,
    heartbeatMs: settings.heartbeatMs,
    ttlMs: settings.ttlMs,
  };
}
