/** The client's files, and the one page that all its screens share. */
import { gzipSync } from 'node:zlib';
import { html, reply } from '../guard/reply.js';
import type { Settings } from '../options.js';
import { CLIENT_FILES, type ClientFile } from './client-files.js';

const SCREENS =
  /^((jobs|workflows|webhooks)(\/[0-9a-f-]{36})?|workers|ring|dead-letters|queues|schedules|limits|live-lab|health|audit)?$/i;

export function page(path: string, request: Request, settings: Settings): Response | null {
  const file = Object.hasOwn(CLIENT_FILES, path) ? CLIENT_FILES[path] : undefined;
  if (file) return textFile(file, request);
  return SCREENS.test(path) ? html(200, shell(settings)) : null;
}

/** Its client says that there is no such screen. */
export const missingPage = (settings: Settings): Response => html(404, shell(settings));

const shell = ({ base }: Settings) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<base href="${base}">
<title>Holdfast</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="app.css">
<script type="module" src="app.js"></script>
</head>
<body>
<div id="app"></div>
<noscript>The dashboard needs JavaScript. In a terminal: npx holdfast top</noscript>
</body>
</html>
`;

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

/** A browser asks each time whether it has changed, and gets it packed if it can unpack it. */
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
