import { fileURLToPath } from 'node:url';
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { ClosingLine } from './test/support/closing-line.js';
import { LongestFirst } from './test/support/longest-first.js';

/** The program of the keeper's thread, the dashboard's client and its lab are made by the build. */
const made = (path: string) => fileURLToPath(new URL(`packages/${path}`, import.meta.url));

/** What the build has made is imported as it is: there is nothing to transform in it. */
const BUILT = [new RegExp(`^${made('')}[a-z]+/(dist|build)/`)];

/** They measure how soon something happens, to tenths of a second: they mostly wait, and run beside each other only. */
const TIMED = [
  'test/calm/{delayed,even-hands,frozen,idle-hands,late-commit,oldest-first,poison}.test.ts',
  'test/claim/back-again.test.ts',
];

/** They replace modules, or count what is in their process. All others share a process with those before them. */
const ALONE = [
  'packages/testing/src/{faults,kit}.test.ts',
  'packages/holdfast/src/tracing/**/*.test.ts',
  'packages/holdfast/src/postgres/database.test.ts',
  'packages/holdfast/src/worker/lease/keeper-thread.test.ts',
  'test/dashboard/feed.test.ts',
  'test/{lab,simulation}/**/*.test.ts',
  'test/**/{event-loop,fuzz,metrics,metrics-elsewhere,tracing,warnings}.test.ts',
];

/** All that they test is left to `npm run test:long`. */
const LONG_ONLY = [
  'test/calm/{crash-beside,poison}.test.ts',
  'test/crash/memory.test.ts',
  'test/fleet/{failing-keys,limits,per-key}.test.ts',
];

const LEFT_OUT = process.env.HOLDFAST_LONG ? [] : LONG_ONLY;

/** What these files do on PGlite takes seconds: V8 does not earn back what it would optimize of Postgres. */
const QUICK_WASM = ['--liftoff-only'];

/**
 * Two busy cores can make anything late. What failed for being late is tried once more, and the closing line
 * says so; what failed for being wrong is never tried again, nor what has not come within 20 s (until.ts) or within the
 * time of a test: that was a lost batch once.
 */
const LATE = /^waited in vain for|to be less than/;

/** Packages of ours are tested from their sources. */
const source = (name: string, path: string) => ({
  find: new RegExp(`^${name}$`),
  replacement: made(path),
});

export const resolve = {
  alias: [
    source('holdfast', 'holdfast/src/index.ts'),
    source('holdfast/internal', 'holdfast/src/internal.ts'),
    source('holdfast/metrics', 'holdfast/src/metrics/index.ts'),
    source('holdfast/outbox', 'holdfast/src/shapes/outbox/index.ts'),
    source('holdfast/outbox/http', 'holdfast/src/shapes/outbox/sinks/http.ts'),
    source('holdfast/outbox/nats', 'holdfast/src/shapes/outbox/sinks/nats.ts'),
    source('holdfast/outbox/redis', 'holdfast/src/shapes/outbox/sinks/redis.ts'),
    source('holdfast/outbox/rabbitmq', 'holdfast/src/shapes/outbox/sinks/rabbitmq.ts'),
    source('holdfast/outbox/kafka', 'holdfast/src/shapes/outbox/sinks/kafka.ts'),
    source('holdfast/receive', 'holdfast/src/shapes/receive/index.ts'),
    source('holdfast/webhooks', 'holdfast/src/shapes/webhooks/index.ts'),
    source('holdfast/projections', 'holdfast/src/shapes/projections/index.ts'),
    source('@holdfast/testing', 'testing/src/index.ts'),
    source('@holdfast/testing/internal', 'testing/src/internal.ts'),
    source('@holdfast/embedded', 'embedded/src/index.ts'),
    source('@holdfast/dashboard', 'dashboard/src/index.ts'),
    source('@holdfast/dashboard/internal', 'dashboard/src/internal.ts'),
    source('@holdfast/nest', 'nest/src/index.ts'),
    source('@holdfast/lab', 'lab/src/index.ts'),
    source('./keeper-source.js', 'holdfast/build/worker/lease/keeper-source.js'),
    source('./client-files.js', 'dashboard/dist/pages/client-files.js'),
    source('./lab-files.js', 'dashboard/dist/pages/lab-files.js'),
  ],
};

const project = (
  name: string,
  test: TestProjectInlineConfiguration['test'],
): TestProjectInlineConfiguration => ({
  resolve,
  test: {
    name,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    retry: { count: 1, condition: LATE },
    server: { deps: { external: BUILT } },
    ...test,
  },
});

export const common = {
  globalSetup: ['./test/support/server.ts'],
  reporters: ['default', new ClosingLine()],
  // Nothing passes by being left out.
  allowOnly: false,
  // The projects share what is transformed, and the next run has it.
  experimental: { fsModuleCache: true },
};

export default defineConfig({
  resolve,
  test: {
    ...common,
    sequence: { sequencer: LongestFirst },
    projects: [
      // Two cores, and four files: some of them mostly wait (see LongestFirst).
      project('alone', {
        include: ALONE,
        execArgv: QUICK_WASM,
        maxWorkers: 4,
        sequence: { groupOrder: 0 },
      }),
      project('shared', {
        include: ['packages/*/src/**/*.test.ts', 'apps/*/src/**/*.test.ts', 'test/**/*.test.ts'],
        exclude: ['**/node_modules/**', ...TIMED, ...ALONE, ...LEFT_OUT],
        isolate: false,
        maxWorkers: 4,
        sequence: { groupOrder: 0 },
      }),
      project('timed', {
        include: TIMED,
        exclude: LEFT_OUT,
        isolate: false,
        maxWorkers: 3,
        sequence: { groupOrder: 1 },
      }),
    ],
  },
});
