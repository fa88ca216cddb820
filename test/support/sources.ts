/** The product's source files as data: which there are, and what each imports. Types are imports too. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

export const inRepository = (path: string) => join(ROOT, path);
export const readSource = (path: string) => readFileSync(inRepository(path), 'utf8');

/** The build makes them, so a checkout may be without them. */
const MADE = /(^|\/)(keeper-source|client-files|lab-files)(\.js|\.d\.ts)$/;

/** Product files below a folder, as paths in the repository. Tests are none. */
export function sourcesIn(folder: string): string[] {
  return readdirSync(inRepository(folder), { withFileTypes: true, recursive: true })
    .filter(({ name }) => /\.tsx?$/.test(name) && !/\.test\.tsx?$/.test(name))
    .filter((entry) => entry.isFile())
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)).replaceAll('\\', '/'))
    .sort();
}

/** A file of the repository, or the name of a package. */
export interface Import {
  readonly file?: string;
  readonly name?: string;
}

const known = new Map<string, Import[]>();

export function importsOf(path: string): Import[] {
  let found = known.get(path);
  if (!found) {
    found = read(path);
    known.set(path, found);
  }
  return found;
}

/** `import` and `export … from` at the start of a line, and `import('…')` in code or in a type. */
const IMPORT =
  /^(?:import|export)\b[^'"`;=]*?\bfrom '([^']+)';|^import '([^']+)';|\bimport\('([^']+)'\)/gm;

function read(path: string): Import[] {
  return specifiersIn(readSource(path)).flatMap((specifier): Import[] => {
    if (!specifier.startsWith('.')) return [{ name: specifier }];
    if (MADE.test(specifier)) return [];
    const target = resolve(inRepository(dirname(path)), specifier);
    const bare = target.replace(/\.jsx?$/, '');
    const file = [target, `${bare}.ts`, `${bare}.tsx`, `${bare}.d.ts`].find(
      (one) => /\.[a-z]+$/.test(one) && existsSync(one),
    );
    if (!file) throw new Error(`${path} imports ${specifier}, which is not there`);
    return [{ file: relative(ROOT, file).replaceAll('\\', '/') }];
  });
}

/** Not those of a file that the text writes for somebody: they stand between backticks. */
function specifiersIn(text: string): string[] {
  return [...text.matchAll(IMPORT)]
    .filter(({ index }) => (text.slice(0, index).match(/`/g)?.length ?? 0) % 2 === 0)
    .map(([, from, bare, called]) => (from ?? bare ?? called) as string);
}

/** Each circle of files once, by Tarjan's algorithm: files of which each leads to all others. */
export function circlesOf(paths: readonly string[]): string[][] {
  const all = new Set(paths);
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const circles: string[][] = [];
  const low = (path: string) => lowest.get(path) as number;
  const visit = (path: string): void => {
    const number = order.size;
    order.set(path, number);
    lowest.set(path, number);
    open.push(path);
    const targets = importsOf(path).flatMap(({ file }) => (file && all.has(file) ? [file] : []));
    for (const target of targets) {
      if (!order.has(target)) visit(target);
      if (open.includes(target)) lowest.set(path, Math.min(low(path), low(target)));
    }
    if (low(path) !== number) return;
    const circle = open.splice(open.indexOf(path));
    if (circle.length > 1 || targets.includes(path)) circles.push(circle.sort());
  };
  for (const path of paths) if (!order.has(path)) visit(path);
  return circles;
}
