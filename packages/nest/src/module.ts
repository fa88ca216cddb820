/** The module: the client as a provider of the whole application, and the worker of its process. */
import { type DynamicModule, Inject, Module, type Provider } from '@nestjs/common';
import { DiscoveryModule, DiscoveryService } from '@nestjs/core';
import { type Holdfast, holdfast } from 'holdfast';
import {
  checkAsyncOptions,
  checkOptions,
  type HoldfastModuleAsyncOptions,
  type HoldfastModuleOptions,
} from './options.js';
import { WorkerOfApp } from './worker-of-app.js';

/**
 * The token of the client: for `inject` of a factory, and to replace the client in tests.
 * @example `{ provide: Orders, inject: [HOLDFAST], useFactory: (hf: Holdfast) => new Orders(hf) }`
 */
export const HOLDFAST = Symbol.for('@holdfast/nest:holdfast');
const OPTIONS = Symbol.for('@holdfast/nest:options');
const WORKER = Symbol.for('@holdfast/nest:worker');

/**
 * Injects the client into a provider.
 * @example `constructor(@InjectHoldfast() private readonly hf: Holdfast) {}`
 */
export const InjectHoldfast = (): ParameterDecorator & PropertyDecorator => Inject(HOLDFAST);

/**
 * The module of Nest: one client for the whole application, and a worker that starts and drains with it.
 * @example `@Module({ imports: [HoldfastModule.forRoot({ migrate: true })], providers: [Receipts] })`
 */
// biome-ignore lint/complexity/noStaticOnlyClass: a module of Nest is a class.
export class HoldfastModule {
  /**
   * Options that are known when the module is declared.
   * @example HoldfastModule.forRoot({ worker: { concurrency: 20 }, migrate: true });
   */
  static forRoot(options: HoldfastModuleOptions = {}): DynamicModule {
    return moduleOf({ provide: OPTIONS, useValue: checkOptions(options) });
  }

  /**
   * Options that come from other providers, such as a configuration.
   * @example
   * HoldfastModule.forRootAsync({
   *   inject: ['CONFIG'],
   *   useFactory: (config: { url: string }) => ({ holdfast: { connectionString: config.url } }),
   * });
   */
  static forRootAsync(options: HoldfastModuleAsyncOptions): DynamicModule {
    checkAsyncOptions(options);
    const { imports = [], inject = [], useFactory } = options;
    const made = async (...args: unknown[]) => checkOptions(await useFactory(...args));
    return moduleOf({ provide: OPTIONS, useFactory: made, inject }, imports);
  }
}
// As a decorator would: the build has none.
Module({})(HoldfastModule);

function moduleOf(options: Provider, imports: DynamicModule['imports'] = []): DynamicModule {
  const client: Provider = {
    provide: HOLDFAST,
    useFactory: ({ holdfast: given }: HoldfastModuleOptions) => holdfast(given),
    inject: [OPTIONS],
  };
  const worker: Provider = {
    provide: WORKER,
    useFactory: (hf: Holdfast, given: HoldfastModuleOptions, discovery: DiscoveryService) =>
      new WorkerOfApp(hf, given, discovery),
    inject: [HOLDFAST, OPTIONS, DiscoveryService],
  };
  return {
    module: HoldfastModule,
    global: true,
    imports: [DiscoveryModule, ...imports],
    providers: [options, client, worker],
    exports: [HOLDFAST],
  };
}
