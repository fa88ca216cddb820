// Breaks a real fleet in each known way and asks the tools what is wrong: test/incidents/*.spec.ts. Not part of `npm test`: each
// incident has a server and processes of its own, which takes minutes.
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startVitest } from 'vitest/node';

const { values, positionals } = parseArgs({
  options: { testNamePattern: { type: 'string', short: 't' } },
  allowPositionals: true,
});
const root = fileURLToPath(new URL('..', import.meta.url));
const vitest = await startVitest('test', positionals, {
  ...values,
  root,
  config: 'vitest.suite.config.ts',
  watch: false,
  include: ['test/incidents/**/*.spec.ts'],
  // Each has a server of its own.
  globalSetup: [],
  sequence: { concurrent: false },
});
await vitest.close();
