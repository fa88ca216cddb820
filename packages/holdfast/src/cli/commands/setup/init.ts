/**
 * `holdfast init`: a commented configuration and a first handler, which run as they are; a test runs them. They are ES
 * modules by their names, because the package.json that `npm init` writes may say that others are CommonJS. With
 * --template it writes a whole small app instead.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { shellWord } from '../../../inspect/reading/words.js';
import type { Call } from '../../command.js';
import { Failure, UsageError } from '../../failures.js';
import { CONFIG_NAMES, stripsTypes } from '../../parse/config.js';
import type { Output } from '../../print/output.js';
import { type InitFile, packageName, templateFiles } from './template.js';

export async function run({ args, given, out }: Call): Promise<void> {
  const [folder = '.'] = args;
  const template = given.text('template');
  if (given.flag('ts') && given.flag('js')) throw new UsageError('Give --ts or --js, not both.');
  if (template !== undefined && (given.flag('ts') || given.flag('js')))
    throw new UsageError('Leave out --ts and --js: a template is TypeScript.');
  if (template !== undefined) {
    await writeAll(folder, templateFiles(template, packageName(folder)), [], out);
    const there = args[0] === undefined ? '' : `cd ${shellWord(folder)}, `;
    return out.note(`Next: ${there}npm install, npm run dev`);
  }
  const language = given.flag('js') || (!given.flag('ts') && !stripsTypes()) ? 'mjs' : 'mts';
  await writeAll(folder, initFiles(language), CONFIG_NAMES, out);
  if (language === 'mts' && !stripsTypes())
    out.note(
      `Node ${process.versions.node} cannot run TypeScript by itself: compile it first, or put tsx before it.`,
    );
  out.note(
    "Next: set DATABASE_URL, then npx holdfast migrate, npx holdfast enqueue hello '{}', npx holdfast work",
  );
}

/** All of them or, where one of them or of `rivals` is there, none. */
async function writeAll(
  folder: string,
  files: readonly InitFile[],
  rivals: readonly string[],
  out: Output,
): Promise<void> {
  const wanted = [...rivals, ...files.map((file) => file.path)];
  const taken = [...new Set(wanted)].filter((path) => existsSync(resolve(folder, path)));
  if (taken.length > 0)
    throw new Failure(
      `${taken.join(' and ')} ${taken.length === 1 ? 'exists' : 'exist'} already; nothing was written.`,
    );
  for (const { path, text } of files) {
    try {
      makeFolder(dirname(resolve(folder, path)));
      writeFileSync(resolve(folder, path), text, { flag: 'wx' });
    } catch (error) {
      throw new Failure(`${path} could not be written: ${(error as Error).message}`);
    }
    await (out.json ? out.value({ path }) : out.line(path));
  }
}

/** Level by level: Node's recursive way does not end where a folder cannot be made, as in /proc. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  makeFolder(dirname(folder));
  mkdirSync(folder);
}

export function initFiles(language: 'mts' | 'mjs'): InitFile[] {
  const typed = language === 'mts';
  return [
    { path: `holdfast.config.${language}`, text: configText(language) },
    { path: `jobs/hello.${language}`, text: jobText(typed) },
  ];
}

const configText = (
  end: string,
) => `// What \`npx holdfast work\` runs. Every option of holdfast() and of workers: the page "Options" of the docs
import { defineConfig } from 'holdfast/config';
import { hello, sayHello } from './jobs/hello.${end}';

export default defineConfig({
  // The database. Left out, it is that of DATABASE_URL, or of PGHOST, PGUSER, PGDATABASE, …
  // url: 'postgres://user:password@localhost:5432/app',

  // The schema with Holdfast's tables, made by \`npx holdfast migrate\`.
  // schema: 'holdfast',

  worker: {
    // So many handlers run at once.
    concurrency: 10,
    // How long a stop waits for handlers that are running.
    grace: '30s',
    // Shown by \`npx holdfast workers ls\`.
    // metadata: { version: '1.0.0' },
  },

  // Which handler runs which job. Called once, before the worker starts.
  handlers(worker) {
    worker.handle(hello, sayHello);
  },
});
`;

const jobText = (
  typed: boolean,
) => `${typed ? "import { type HandlerContext, job } from 'holdfast';" : "import { job } from 'holdfast';"}

// The definition: import it where you enqueue, and in holdfast.config.
//   await hf.enqueue(hello, { name: 'world' }, { tx: client });
// or from the command line:
//   npx holdfast enqueue hello '{"name": "world"}'
export const hello = job${typed ? '<{ name?: string }>' : ''}('hello', { maxAttempts: 5 });

// The handler. It may run more than once: make what it does repeatable, or use ctx.transaction and
// ctx.once. If it throws, the job is tried again later; after maxAttempts it becomes a dead letter.
export async function sayHello(ctx${typed ? ': HandlerContext<{ name?: string }>' : ''}) {
  console.log(\`Hello, \${ctx.payload.name ?? 'you'}! (job \${ctx.id}, attempt \${ctx.attempt})\`);
}
`;
