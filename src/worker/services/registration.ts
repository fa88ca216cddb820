/**
 * A worker's entry in the registry: made at the start, made anew after it was declared dead, marked when it
 * drains and given up when it leaves. At the end a database that does not answer is not waited for.
 */
import { hostname } from 'node:os';
import { type Handles, leave, lockKeyOf, markDraining, register } from '../../fleet/registry.js';
import { VERSION } from '../../job/version.js';
import { LAST_MS, untilDone, within } from '../../postgres/backoff.js';
import type { Executor } from '../../postgres/queryable.js';
import { LATEST } from '../../schema/migrations.js';
import type { Settings } from '../options.js';

export interface RegistrationDeps {
  readonly engine: Executor;
  readonly schema: string;
  readonly handles: Handles;
  readonly metadata: object;
  /** Aborted when the worker stops. */
  readonly halt: AbortSignal;
  readonly reportError: (what: string, error: unknown) => void;
}

export class Registration {
  readonly #deps: RegistrationDeps;
  readonly #names: { readonly schema: string; readonly queue: string };
  /** Those that are registered, or may yet be. */
  readonly #entered = new Set<string>();

  constructor(deps: RegistrationDeps) {
    this.#deps = deps;
    this.#names = { schema: deps.schema, queue: 'inbox' };
  }

  async enter(id: string): Promise<void> {
    const { engine, handles, metadata, halt } = this.#deps;
    // The start is not waited for by a stop, and may come here after it.
    if (halt.aborted) return;
    this.#entered.add(id);
    return register(engine, this.#names, { id, lockKey: lockKeyOf(id), handles, metadata });
  }

  /** Tries for as long as it takes: a worker that is not registered owns nothing. False: it stops. */
  async enterAgain(id: string): Promise<boolean> {
    const { reportError, halt } = this.#deps;
    const failed = (error: unknown) => reportError('registering again', error);
    // A stop does not wait for the answer, as at the start: it leaves at once, whatever comes of this.
    const over = new AbortController();
    const stopped = new Promise<void>((resolve) => {
      halt.addEventListener('abort', () => resolve(), { once: true, signal: over.signal });
    });
    const orStopped = () => Promise.race([this.enter(id), stopped]);
    await untilDone(halt, orStopped, failed).finally(() => over.abort());
    return !halt.aborted;
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
    if (!this.#entered.has(id)) return;
    const left = leave(engine, this.#names, id, releasedAll).catch((error) =>
      reportError('leaving the registry', error),
    );
    await within(LAST_MS, left);
  }
}

/** What a worker tells of itself. */
export function metadataOf(settings: Settings): object {
  const { concurrency, leaseMs, heartbeatMs, ttlMs, metadata } = settings;
  return {
    ...{
      host: hostname(),
      pid: process.pid,
      node: process.version,
      holdfast: VERSION,
      migrations: LATEST,
    },
    ...{ concurrency, ...metadata, leaseMs, heartbeatMs, ttlMs },
  };
}
