/** The client's files, and the one page that all its screens share. */

import { html } from '../guard/reply.js';
import type { Settings } from '../options.js';
import { CLIENT_FILES } from './client-files.js';
import { textFile } from './text-file.js';

const SCREENS =
  /^(jobs(\/[0-9a-f-]{36})?|workers|ring|dead-letters|queues|schedules|limits|live-lab|health|audit)?$/i;

/** Null: there is no such page. */
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
