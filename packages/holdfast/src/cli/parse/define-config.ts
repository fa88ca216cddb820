/**
 * What stands in `holdfast.config`, for editors and compilers. `defineConfig` changes nothing; it is there
 * so that a configuration is checked as it is written, in TypeScript and in JavaScript alike. It is the
 * entry point `holdfast/config`, so it imports types only: loading a configuration loads nothing else.
 */
import type { Holdfast, HoldfastOptions, Logger, Worker, WorkerOptions } from '../../index.js';

export interface Config {
  /** Default: the environment variable DATABASE_URL, or PGHOST, PGUSER, PGDATABASE, … */
  readonly url?: string;
  /** The schema with Holdfast's tables. Default `holdfast`. */
  readonly schema?: string;
  /** A direct connection to listen on, where `url` leads through a transaction pooler. */
  readonly listenUrl?: string;
  /** The options of `hf.worker()`. */
  readonly worker?: WorkerOptions;
  readonly logger?: Logger;
  /** Further options of `holdfast()`: `redact`, `telemetry`, `pool` and so on. */
  readonly holdfast?: Omit<HoldfastOptions, 'connectionString' | 'schema' | 'listenUrl' | 'logger'>;
  /**
   * Called once, before the worker starts: `worker.handle(job, handler)` for each job. The second argument
   * is the client, for what else the process does: serving /metrics, or enqueueing.
   */
  readonly handlers: (worker: Worker, hf: Holdfast) => unknown;
}

export function defineConfig(config: Config): Config {
  return config;
}
