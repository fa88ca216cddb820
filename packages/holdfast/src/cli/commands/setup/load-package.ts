/** A package of Holdfast that a command needs, and that need not be installed. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

interface Found {
  /** The file that is imported. */
  readonly path: string;
  readonly version: string;
}

/** In the folder of the caller, or beside this copy of holdfast, which may be a global one. Null: it is in neither. */
export function findPackage(name: string): Found | null {
  for (const from of [join(process.cwd(), 'index.js'), import.meta.url]) {
    const { resolve } = createRequire(from);
    try {
      const { version } = JSON.parse(readFileSync(resolve(`${name}/package.json`), 'utf8'));
      return { path: resolve(name), version };
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  return null;
}

export const importFound = async <Module>({ path }: Found): Promise<Module> =>
  (await import(pathToFileURL(path).href)) as Module;

export async function loadPackage<Module>(name: string): Promise<Module | null> {
  const found = findPackage(name);
  return found && importFound<Module>(found);
}
