/** A package of Holdfast that a command needs, and that need not be installed. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** Null: it is installed neither beside this package nor in the folder of the caller. */
export async function loadPackage<Module>(name: string): Promise<Module | null> {
  for (const from of [import.meta.url, join(process.cwd(), 'index.js')]) {
    let path: string;
    try {
      path = createRequire(from).resolve(name);
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'MODULE_NOT_FOUND') throw error;
      continue;
    }
    return (await import(pathToFileURL(path).href)) as Module;
  }
  return null;
}
