/**
 * A registry on this machine with the packages of node_modules and no others, so that `npm install` can be typed in a
 * test without a network.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, dirname, join } from 'node:path';

interface Manifest {
  readonly name: string;
  readonly version: string;
}

function read(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
}

/** The folders of all packages under a node_modules, also of those under others. */
function packagesIn(modules: string): string[] {
  if (!existsSync(modules)) return [];
  const names = readdirSync(modules).flatMap((name) =>
    name.startsWith('@') ? readdirSync(join(modules, name)).map((one) => join(name, one)) : [name],
  );
  const folders = names
    .map((name) => join(modules, name))
    .filter((folder) => existsSync(join(folder, 'package.json')));
  return [...folders, ...folders.flatMap((folder) => packagesIn(join(folder, 'node_modules')))];
}

/** Not compressed: npm takes it all the same, and it is read once. */
function tarball(folder: string): Buffer {
  const args = ['-cf', '-', '--exclude=node_modules', '-C', dirname(folder), basename(folder)];
  const { status, stdout } = spawnSync('tar', args, { maxBuffer: 2 ** 30 });
  if (status !== 0) throw new Error(`tar failed for ${folder}`);
  return stdout;
}

export interface Registry {
  readonly url: string;
  close(): Promise<void>;
}

export async function startRegistry(modules: string): Promise<Registry> {
  const folders = packagesIn(modules);
  const tarballs = new Map<string, Buffer>();
  /** With the name as a path: `/@types/pg`, and `/@types/pg/-/8.0.0.tgz`. */
  const answer = (path: string, url: string): Buffer | string | null => {
    const [name = '', file] = path.slice(1).split('/-/', 2);
    const found = folders.filter((folder) => read(folder).name === name);
    if (found.length === 0) return null;
    const bytes = (folder: string) => {
      const made = tarballs.get(folder) ?? tarball(folder);
      tarballs.set(folder, made);
      return made;
    };
    if (file !== undefined) {
      const folder = found.find((one) => `${read(one).version}.tgz` === file);
      return folder ? bytes(folder) : null;
    }
    const versions = found.map((folder) => {
      const manifest = read(folder);
      const shasum = createHash('sha1').update(bytes(folder)).digest('hex');
      const dist = { tarball: `${url}/${name}/-/${manifest.version}.tgz`, shasum };
      return [manifest.version, { ...manifest, dist }] as const;
    });
    const latest = versions[0]?.[0];
    return JSON.stringify({
      ...{ name, 'dist-tags': { latest }, versions: Object.fromEntries(versions) },
    });
  };
  const server = createServer((request, response) => {
    const { port } = server.address() as AddressInfo;
    const body = answer(decodeURIComponent(request.url ?? ''), `http://127.0.0.1:${port}`);
    response.writeHead(body === null ? 404 : 200).end(body ?? '{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => new Promise((resolve) => void server.close(() => resolve())),
  };
}
