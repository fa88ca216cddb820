import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { ClosingLine } from './test/support/closing-line.js';

/** The program of the keeper's thread is made by the build. */
const KEEPER_SOURCE = new URL('dist/worker/lease/keeper-source.js', import.meta.url);

export default defineConfig({
  resolve: {
    alias: [{ find: /^\.\/keeper-source\.js$/, replacement: fileURLToPath(KEEPER_SOURCE) }],
  },
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    globalSetup: ['./test/support/server.ts'],
    reporters: ['default', new ClosingLine()],
    // Two cores: more files at once only make the timings of process tests noisier.
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Nothing passes by being left out or by being tried again.
    allowOnly: false,
    retry: 0,
  },
});
