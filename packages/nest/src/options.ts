/** What `forRoot` takes, and the check of its names. The values are checked where Holdfast uses them. */
import type { ModuleMetadata } from '@nestjs/common';
import { HoldfastError, type HoldfastOptions, type WorkerOptions } from 'holdfast';
import { checkKnown, type Known } from 'holdfast/internal';

/**
 * Options of `HoldfastModule.forRoot()`.
 * @example HoldfastModule.forRoot({ holdfast: { schema: 'jobs' }, worker: { concurrency: 20 }, migrate: true });
 */
export interface HoldfastModuleOptions {
  /** The options of `holdfast()`. Default: the database of DATABASE_URL. */
  readonly holdfast?: HoldfastOptions;
  /** The options of the worker, or false: no worker in this process. Default: one, if providers handle jobs. */
  readonly worker?: Omit<WorkerOptions, 'handleSignals'> | false;
  /** Bring the schema to this version before the worker starts. Default false. */
  readonly migrate?: boolean;
}

/**
 * Options of `HoldfastModule.forRootAsync()`.
 * @example HoldfastModule.forRootAsync({ inject: ['CONFIG'], useFactory: (config: { url: string }) => ({ holdfast: { connectionString: config.url } }) });
 */
export interface HoldfastModuleAsyncOptions extends Pick<ModuleMetadata, 'imports'> {
  /** Returns the options, or a promise of them. It gets what `inject` names, in that order. */
  // biome-ignore lint/suspicious/noExplicitAny: what is injected is the caller's.
  readonly useFactory: (...args: any[]) => HoldfastModuleOptions | Promise<HoldfastModuleOptions>;
  /** The tokens of the providers that `useFactory` gets. Default: none. */
  // biome-ignore lint/suspicious/noExplicitAny: as Nest has it.
  readonly inject?: any[];
}

const OPTIONS = {
  ...{ holdfast: true, worker: true, migrate: true },
} as const satisfies Known<HoldfastModuleOptions>;
const ASYNC_OPTIONS = {
  ...{ imports: true, useFactory: true, inject: true },
} as const satisfies Known<HoldfastModuleAsyncOptions>;

const UNMADE = 'Nothing was started.';

export function checkOptions(options: HoldfastModuleOptions): HoldfastModuleOptions {
  checkKnown(options, OPTIONS, 'HoldfastModule.forRoot()', UNMADE);
  if (options?.worker && 'handleSignals' in options.worker)
    throw new HoldfastError(
      'OPTION_INVALID',
      `worker.handleSignals is not for HoldfastModule: Nest sees the signals. ${UNMADE} Leave it out, and call app.enableShutdownHooks().`,
    );
  return options ?? {};
}

export function checkAsyncOptions(options: HoldfastModuleAsyncOptions): void {
  checkKnown(options, ASYNC_OPTIONS, 'HoldfastModule.forRootAsync()', UNMADE);
  if (typeof options?.useFactory === 'function') return;
  throw new HoldfastError(
    'OPTION_INVALID',
    `HoldfastModule.forRootAsync() needs useFactory, a function that returns the options. ${UNMADE}`,
  );
}
