/**
 * The configuration of `holdfast work`: a module whose default export names the database, the worker's
 * options and the handlers (see define-config.ts). JavaScript everywhere; TypeScript where this Node strips
 * types by itself, or where a loader such as tsx was put before it.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Failure } from '../failures.js';
import type { Config } from './define-config.js';

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
  const name = shortly(path);
  let module: { default?: unknown };
  try {
    module = await import(pathToFileURL(path).href);
  } catch (error) {
    throw unloadable(name, error);
  }
  // A compiler that writes CommonJS puts the default export into a property of that name.
  const exported = module.default as { __esModule?: boolean; default?: unknown } | undefined;
  const config = (exported?.__esModule ? exported.default : exported) as
    | Partial<Config>
    | undefined;
  if (typeof config?.handlers !== 'function') {
    throw new Failure(
      `${name} has no default export with a function \`handlers(worker)\`, so there is nothing to run. ` +
        '`holdfast init` in an empty folder shows what one looks like.',
    );
  }
  return config as Config;
}

const shortly = (path: string) => relative(process.cwd(), path) || path;

const TSX = "npm install tsx; NODE_OPTIONS='--import tsx' npx holdfast work";

/** Asked only after the import has failed: a loader such as tsx makes an older Node read TypeScript, too. */
function cannotStrip(name: string, cause: unknown): Failure {
  return new Failure(
    `${name} is TypeScript, which Node ${process.versions.node} cannot load by itself. Nothing was started. ` +
      `Compile it and pass the result with --config, write it as .mjs, put a loader before it (${TSX}), ` +
      'or use Node 22.18 or later.',
    { cause },
  );
}

function unloadable(name: string, error: unknown): Failure {
  const { code, message = String(error) } = error as { code?: string; message?: string };
  if (code === 'ERR_UNKNOWN_FILE_EXTENSION') {
    const file = / for (.*\.[cm]?tsx?)$/.exec(message)?.[1];
    if (file) return cannotStrip(shortly(file), error);
  }
  const said = message.split('\n', 1)[0];
  return new Failure(
    `${name} could not be loaded: ${said}. Nothing was started.${fixOf(code, message)}`,
    { cause: error },
  );
}

function fixOf(code: string | undefined, message: string): string {
  if (code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX')
    return ` Node only strips types; write it without, or put a loader before it: ${TSX}.`;
  if (/outside a module$|^Unexpected token 'export'/.test(message))
    return ' Add "type": "module" to package.json, or let the name end in .mjs or .mts.';
  const missing = /Cannot find package '(@?[^/']+(?:\/[^/']+)?)/.exec(message)?.[1];
  if (missing) return ` Install it: npm install ${missing}.`;
  // What compiles with tsc as './x.js' is here still x.ts, and Node looks for what is written.
  const script = /Cannot find module '(.*)\.(m?)js' imported from .*\.m?ts$/.exec(message);
  const source = script && `${script[1]}.${script[2]}ts`;
  if (!source || !existsSync(source)) return '';
  return ` Import ${basename(source)} by its own name, or put a loader before it: ${TSX}.`;
}

/** The copy of holdfast that the handlers import, so that their errors and ours are of the same classes. */
export async function holdfastOf(path: string): Promise<typeof import('../../index.js')> {
  let own: string;
  try {
    own = createRequire(path).resolve('holdfast');
  } catch {
    return import('../../index.js');
  }
  return import(pathToFileURL(own).href);
}
