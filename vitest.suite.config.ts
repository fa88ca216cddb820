import { defineConfig } from 'vitest/config';
import { common, resolve } from './vitest.config.js';

/** For the suites that are no part of `npm test`: a script says which files; projects would bring their own. */
export default defineConfig({
  resolve,
  test: { ...common, testTimeout: 60_000, hookTimeout: 60_000, maxWorkers: 2 },
});
