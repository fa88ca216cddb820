/**
 * One Postgres for a whole test run: the embedded one in a throw-away folder, or the server that
 * DATABASE_URL names. A migrated template database is made on it; every test file clones that.
 */
import type { TestProject } from 'vitest/node';
import { startEmbedded } from '../../src/embedded/index.js';
import { dropDatabase, makeTemplate } from '../../src/testing/index.js';

declare module 'vitest' {
  export interface ProvidedContext {
    serverUrl: string;
    template: string;
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const external = process.env.DATABASE_URL;
  const server = external
    ? null
    : await startEmbedded({ throwaway: true, onProgress: (message) => console.log(message) });
  const url = external ?? (server?.url as string);
  const template = await makeTemplate(url);
  project.provide('serverUrl', url);
  project.provide('template', template);
  return async () => {
    if (server) await server.stop();
    else await dropDatabase(url, template);
  };
}
