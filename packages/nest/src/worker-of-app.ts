/**
 * The worker of an application. It starts when the application has been put together, with a handler for every method
 * that has a note, and drains when the application ends: before other modules close what handlers use.
 */
import type {
  BeforeApplicationShutdown,
  OnApplicationBootstrap,
  OnApplicationShutdown,
} from '@nestjs/common';
import type { DiscoveryService } from '@nestjs/core';
import { type Holdfast, HoldfastError, type Worker } from 'holdfast';
import { type Note, notesOf } from './handle.js';
import type { HoldfastModuleOptions } from './options.js';

const UNSTARTED = 'The worker was not started.';

type Wrapper = ReturnType<DiscoveryService['getProviders']>[number];
type Method = (...args: unknown[]) => unknown;

interface Found extends Note {
  /** `Receipts.send`, for errors. */
  readonly name: string;
  readonly method: Method;
}

export class WorkerOfApp
  implements OnApplicationBootstrap, BeforeApplicationShutdown, OnApplicationShutdown
{
  readonly #hf: Holdfast;
  readonly #options: HoldfastModuleOptions;
  readonly #discovery: DiscoveryService;
  #worker: Worker | null = null;

  constructor(hf: Holdfast, options: HoldfastModuleOptions, discovery: DiscoveryService) {
    this.#hf = hf;
    this.#options = options;
    this.#discovery = discovery;
  }

  async onApplicationBootstrap(): Promise<void> {
    const found = this.#find();
    if (this.#options.migrate) await this.#hf.migrate();
    const { worker = {} } = this.#options;
    if (worker === false || (found.length === 0 && this.#options.worker === undefined)) return;
    await this.#start(worker, found);
  }

  /** Resolves when it has started, and rejects if it cannot. While the database is away it waits. */
  #start(options: object, found: readonly Found[]): Promise<void> {
    return new Promise((resolve, reject) => {
      const { onEvent, ...rest } = options as { onEvent?: (event: object) => void };
      const worker = this.#hf.worker({
        ...rest,
        handleSignals: false,
        onEvent: (event) => {
          if (event.kind === 'started') resolve();
          onEvent?.(event);
        },
      });
      for (const { job, options, method } of found) {
        if (options) worker.handleMany(job, options, method as never);
        else worker.handle(job, method as never);
      }
      this.#worker = worker;
      worker.run().then(resolve, reject);
    });
  }

  /** Two methods for one type are refused here, also where no worker runs: the first deploy shows it. */
  #find(): Found[] {
    const wrappers = [...this.#discovery.getProviders(), ...this.#discovery.getControllers()];
    const found = new Map<string, Found>();
    for (const one of wrappers.flatMap(notedIn)) {
      const other = found.get(one.job.type);
      if (other)
        throw refused(
          `${other.name} and ${one.name} both handle "${one.job.type}".`,
          'Leave one of them.',
        );
      found.set(one.job.type, one);
    }
    return [...found.values()];
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.#worker?.stop();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#hf.close();
  }
}

/** An alias of a provider has the same instance and is no second one. */
function notedIn(wrapper: Wrapper): Found[] {
  const { metatype, instance, isAlias } = wrapper;
  const type = typeof metatype === 'function' && metatype.prototype ? metatype : null;
  // Of a provider that is made by a factory, only the instance says what it is.
  const prototype = wrapper.inject ? instance && Object.getPrototypeOf(instance) : type?.prototype;
  if (!prototype || isAlias) return [];
  return methodsOf(prototype).flatMap((key) => {
    const name = `${prototype.constructor.name}.${key}`;
    const notes = notesOf(prototype[key]);
    if (notes.length > 0 && !wrapper.isDependencyTreeStatic())
      throw refused(
        `${name} handles jobs, and ${prototype.constructor.name} is made anew for each request.`,
        'Put the method into a provider of the default scope.',
      );
    return notes.map((note) => ({
      ...note,
      name,
      method: (...args: unknown[]) => instance[key](...args),
    }));
  });
}

/** The names of its methods, inherited ones too. Getters are not called. */
function methodsOf(prototype: object): string[] {
  const names = new Set<string>();
  for (let at = prototype; at && at !== Object.prototype; at = Object.getPrototypeOf(at))
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at)))
      if (typeof value === 'function' && name !== 'constructor') names.add(name);
  return [...names];
}

const refused = (problem: string, fix: string) =>
  new HoldfastError('OPTION_INVALID', `${problem} ${UNSTARTED} ${fix}`);
