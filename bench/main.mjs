// `npm run bench -- PART [--quick]`: runs one part on an embedded Postgres with fsync on and prints each
// figure on a line of its own as `NAME VALUE (goal GOAL) ok|short`. Exits 1 if any figure is short.
import { totalmem } from 'node:os';
import { startEmbedded } from '../dist/embedded/index.js';
import { drain } from './drain.mjs';
import { fleet } from './fleet/index.mjs';
import { inspect } from './inspect.mjs';

const parts = { drain, fleet, inspect };
const [name, ...flags] = process.argv.slice(2);
const part = parts[name];
if (!part) {
  console.error(
    `Usage: npm run bench -- ${Object.keys(parts).join(' | ')} [--quick] [--only SECTION]`,
  );
  console.error(
    name ? `There is no part called "${name}"; nothing was run.` : 'Name a part; nothing was run.',
  );
  process.exit(2);
}

// A quarter of the memory for Postgres' buffers, as its manual advises for a server of its own.
const buffersMb = Math.floor(totalmem() / 4 / 1024 / 1024);
const server = await startEmbedded({
  throwaway: true,
  settings: { shared_buffers: `${buffersMb}MB`, max_wal_size: '8GB', checkpoint_timeout: '30min' },
  onProgress: (message) => console.error(message),
});
let short = 0;
const figure = (label, value, goal, holds) => {
  if (!holds) short++;
  console.log(`${label} ${value} (goal ${goal}) ${holds ? 'ok' : 'short'}`);
};
try {
  await part({
    url: server.url,
    quick: flags.includes('--quick'),
    only: flags.includes('--only') ? flags[flags.indexOf('--only') + 1] : null,
    figure,
    say: (text) => console.error(text),
  });
} finally {
  await server.stop();
}
process.exit(short > 0 ? 1 : 0);
