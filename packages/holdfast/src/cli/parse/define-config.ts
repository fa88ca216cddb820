/**
 * What stands in `holdfast.config`, for editors and compilers. `defineConfig` changes nothing; it is there
 * so that a configuration is checked as it is written, in TypeScript and in JavaScript alike. It is the
 * entry point `holdfast/config`, so it imports types only: loading a configuration loads nothing else.
 */
import type { Holdfast, HoldfastOptions, Logger, Worker, WorkerOptions } from '../../index.js';

/**
 * What `holdfast.config` exports.
 * @example export default defineConfig({ handlers: (worker) => worker.handle(sendReceipt, async () => {}) });
 */
export interface Config {
  /** The database. Default: DATABASE_URL, or PGHOST, PGUSER, PGDATABASE, … */
  readonly url?: string;
  /** The schema with Holdfast's tables. Default `holdfast`. */
  readonly schema?: string;
  /** A direct connection to listen on, if `url` leads through a transaction pooler. Default: `url`. */
  readonly listenUrl?: string;
  /** Options of `hf.worker()`. Default: none. */
  readonly worker?: WorkerOptions;
  /** Your logger. Default: lines on stderr; JSON if stderr is no terminal. */
  readonly logger?: Logger;
  /** Further options of `holdfast()`: `redact`, `telemetry`, `pool` and so on. Default: none. */
  readonly holdfast?: Omit<HoldfastOptions, 'connectionString' | 'schema' | 'listenUrl' | 'logger'>;
  /**
   * Called once, before the worker starts: `worker.handle(job, handler)` for each job. The second argument
   * is the client, for what else the process does: serving /metrics, or enqueueing.
   */
  readonly handlers: (worker: Worker, hf: Holdfast) => unknown;
}

/**
 * Types `holdfast.config`; returns what it is given.
 * @example
 * export default defineConfig({
 *   worker: { concurrency: 20 },
 *   handlers: (worker) => worker.handle(sendReceipt, async ({ payload }) => mail.send(payload.orderId)),
 * });
 */
export function defineConfig(config: Config): Config {
  return config;
}
