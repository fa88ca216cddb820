/** A text of the package: a browser asks each time whether it has changed, and gets it packed if it can unpack it. */
import { gzipSync } from 'node:zlib';
import { reply } from '../guard/reply.js';
import type { ClientFile } from './client-files.js';

/** By etag. A file is packed once, when it is first asked for. */
const packed = new Map<string, Uint8Array<ArrayBuffer>>();

function packedOf({ etag, text }: ClientFile): Uint8Array<ArrayBuffer> {
  const known = packed.get(etag);
  if (known) return known;
  const bytes = new Uint8Array(gzipSync(text));
  packed.set(etag, bytes);
  return bytes;
}

const GZIP = /^\s*gzip\s*(;\s*q=(1|0?\.\d*[1-9]).*)?$/i;
const takesGzip = (request: Request) =>
  (request.headers.get('accept-encoding') ?? '').split(',').some((one) => GZIP.test(one));

export function textFile(
  file: ClientFile,
  request: Request,
  more: Readonly<Record<string, string>> = {},
): Response {
  const headers = {
    ...more,
    'cache-control': 'no-cache',
    vary: 'accept-encoding',
    etag: file.etag,
  };
  if (request.headers.get('if-none-match') === file.etag) return reply(304, null, headers);
  const type = { 'content-type': file.type };
  if (!takesGzip(request)) return reply(200, file.text, { ...headers, ...type });
  return reply(200, packedOf(file), { ...headers, ...type, 'content-encoding': 'gzip' });
}
