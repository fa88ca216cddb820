/** Files of a folder under a path, by plain HTTP: as any web server serves them, without headers of its own. */
import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
};

export interface FileServer {
  readonly url: string;
  /** What was asked for and is not there. */
  readonly missing: readonly string[];
  close(): Promise<void>;
}

export async function serveFiles(folder: string, under: string): Promise<FileServer> {
  const missing: string[] = [];
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    const name = pathname.startsWith(under) ? normalize(pathname.slice(under.length)) : '..';
    const file = join(folder, name === '' || name === '.' ? 'index.html' : name);
    if (name.startsWith('..') || !existsSync(file) || !statSync(file).isFile()) {
      missing.push(pathname);
      return void response.writeHead(404).end();
    }
    response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' });
    createReadStream(file).pipe(response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${under}`,
    missing,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
