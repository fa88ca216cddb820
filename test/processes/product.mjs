/**
 * The compiled product for the processes of tests that start many of them: its CommonJS files are a few, its ES
 * modules hundreds, and a process that loads the few starts in half the time. They come from the same sources;
 * `pool-user.mjs`, `plain-worker.mjs` and the command load the ES modules.
 */
import { createRequire } from 'node:module';

// Without a `navigator` (Node 20) `pg` makes a Response to know where it runs, which loads all of fetch.
globalThis.navigator ??= { userAgent: 'Node.js' };

export const { holdfast, job, RetryLater } = createRequire(import.meta.url)(
  '../../packages/holdfast/dist/cjs/index.js',
);
