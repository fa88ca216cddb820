/**
 * `holdfast init --template NAME`: a small app with a worker, as files in a folder. The files are in `templates` of this
 * package: those of the template, and those of `shared` that the template has no own of. Nothing is downloaded.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { nearest } from '../../../job/options/nearest.js';
import { VERSION } from '../../../job/options/version.js';
import { UsageError } from '../../failures.js';

export const TEMPLATES = ['fastify-drizzle', 'hono-kysely', 'next-prisma', 'nest'] as const;

export interface InitFile {
  readonly path: string;
  readonly text: string;
}

/** The package's own folder, from its sources and from what is built of them. */
export const templatesFolder = () =>
  join(dirname(createRequire(import.meta.url).resolve('holdfast/package.json')), 'templates');

/** npm packs no file of the name `.gitignore`. */
const nameOf = (path: string) => path.replaceAll('\\', '/').replace(/^gitignore$/, '.gitignore');

/** `My Shop` is `my-shop` for npm, which refuses some names, and one that a dependency has. */
export function packageName(folder: string): string {
  const name = basename(resolve(folder))
    .toLowerCase()
    .replace(/[^a-z0-9._~-]+/g, '-')
    .replace(/^[._-]+|-+$/g, '')
    .slice(0, 200);
  if (name === '') return 'app';
  const taken =
    /^(node_modules|favicon\.ico|holdfast|fastify|hono|kysely|next|nest|pg|prisma|react|typeorm)$/;
  return taken.test(name) ? `${name}-app` : name;
}

/** `app` is the name of its package. */
export function templateFiles(name: string, app: string): InitFile[] {
  if (!(TEMPLATES as readonly string[]).includes(name))
    throw new UsageError(
      `There is no template "${name}".${nearest(name, TEMPLATES)} The templates are ${TEMPLATES.join(', ')}.`,
    );
  const own = filesOf(join(templatesFolder(), name));
  const taken = own.map(({ path }) => path);
  const shared = filesOf(join(templatesFolder(), 'shared'));
  return [...own, ...shared.filter(({ path }) => !taken.includes(path))].map(({ path, text }) => ({
    path,
    text: path === 'package.json' ? text.replace('APP_NAME', app) : text,
  }));
}

function filesOf(folder: string): InitFile[] {
  if (!existsSync(folder)) throw new Error(`${folder} is missing: install holdfast again`);
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((file) => ({
      path: nameOf(relative(folder, file)),
      text: readFileSync(file, 'utf8').replaceAll('HOLDFAST_VERSION', VERSION),
    }));
}
