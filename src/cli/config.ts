/**
 * The configuration of `holdfast work`: a module whose default export names the database, the worker's
 * options and the handlers. JavaScript everywhere; TypeScript where this Node strips types by itself.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Worker, WorkerOptions } from '../index.js';
import type { Logger } from '../postgres/log.js';
import { Failure } from './command.js';

export interface Config {
  /** Default: the environment variable DATABASE_URL. */
  readonly url?: string;
  readonly schema?: string;
  /** A direct connection to listen on, where `url` leads through a transaction pooler. */
  readonly listenUrl?: string;
  readonly worker?: WorkerOptions;
  readonly logger?: Logger;
  /** Called once, before the worker starts: `worker.handle(job, handler)` for each job. */
  readonly handlers: (worker: Worker) => unknown;
}

export const CONFIG_NAMES = ['ts', 'mts', 'mjs', 'js'].map((end) => `holdfast.config.${end}`);

/** From Node 22.18 and 23.6 on. */
export function stripsTypes(): boolean {
  return Boolean((process.features as { typescript?: unknown }).typescript);
}

export function findConfig(given: string | undefined, folder = process.cwd()): string {
  if (given !== undefined) {
    const path = resolve(folder, given);
    if (existsSync(path)) return path;
    throw new Failure(`There is no file ${given}; nothing was started.`);
  }
  const found = CONFIG_NAMES.find((name) => existsSync(resolve(folder, name)));
  if (found) return resolve(folder, found);
  throw new Failure(
    'There is no holdfast.config.mjs (nor .js, .ts, .mts) in this folder, so nothing was started. ' +
      'Run `holdfast init` to make one, or name yours with --config.',
  );
}

export async function loadConfig(path: string): Promise<Config> {
  const name = relative(process.cwd(), path) || path;
  if (/^\.m?ts$/.test(extname(path)) && !stripsTypes()) throw cannotStrip(name);
  let module: { default?: unknown };
  try {
    module = await import(pathToFileURL(path).href);
  } catch (error) {
    throw unloadable(name, error);
  }
  const config = module.default as Partial<Config> | undefined;
  if (typeof config?.handlers !== 'function') {
    throw new Failure(
      `${name} has no default export with a function \`handlers(worker)\`, so there is nothing to run. ` +
        '`holdfast init` in an empty folder shows what one looks like.',
    );
  }
  return config as Config;
}

function cannotStrip(name: string): Failure {
  return new Failure(
    `${name} is TypeScript, which Node ${process.versions.node} cannot load by itself. Nothing was started. ` +
      'Compile it and pass the result with --config, write it as .mjs, or use Node 22.18 or later.',
  );
}

function unloadable(name: string, error: unknown): Failure {
  const { code, message } = error as { code?: string; message?: string };
  if (code === 'ERR_UNKNOWN_FILE_EXTENSION') return cannotStrip(name);
  const missing = /Cannot find package '(@?[^/']+(?:\/[^/']+)?)/.exec(message ?? '')?.[1];
  const fix = missing ? ` Install it: npm install ${missing}.` : '';
  return new Failure(
    `${name} could not be loaded: ${String(message ?? error).split('\n', 1)[0]}. Nothing was started.${fix}`,
    { cause: error },
  );
}

/** The copy of holdfast that the handlers import, so that their errors and ours are of the same classes. */
export async function holdfastOf(path: string): Promise<typeof import('../index.js')> {
  let own: string;
  try {
    own = createRequire(path).resolve('holdfast');
  } catch {
    return import('../index.js');
  }
  return import(pathToFileURL(own).href);
}
