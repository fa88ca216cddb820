/**
 * The files that `holdfast init` writes. They run as they are; a test runs them. They are ES modules by their names,
 * because the package.json that `npm init` writes may say that others are CommonJS.
 */

export interface InitFile {
  readonly path: string;
  readonly text: string;
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
