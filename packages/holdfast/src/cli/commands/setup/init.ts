/** `holdfast init`: a commented configuration and a first handler, which run as they are. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Call } from '../../command.js';
import { Failure, UsageError } from '../../failures.js';
import { CONFIG_NAMES, stripsTypes } from '../../parse/config.js';
import { initFiles } from './init-files.js';

export async function run({ args, given, out }: Call): Promise<void> {
  const [folder = '.', ...rest] = args;
  if (rest.length > 0) throw new UsageError('Write: holdfast init [FOLDER]');
  if (given.flag('ts') && given.flag('js')) throw new UsageError('Give --ts or --js, not both.');
  const language = given.flag('js') || (!given.flag('ts') && !stripsTypes()) ? 'mjs' : 'mts';
  const files = initFiles(language);
  const wanted = [...CONFIG_NAMES, ...files.map((file) => file.path)];
  const taken = [...new Set(wanted)].filter((path) => existsSync(resolve(folder, path)));
  if (taken.length > 0) {
    throw new Failure(`${taken.join(' and ')} exists already; nothing was written.`);
  }
  for (const { path, text } of files) {
    try {
      makeFolder(dirname(resolve(folder, path)));
      writeFileSync(resolve(folder, path), text, { flag: 'wx' });
    } catch (error) {
      throw new Failure(`${path} could not be written: ${(error as Error).message}`);
    }
    await (out.json ? out.value({ path }) : out.line(path));
  }
  if (language === 'mts' && !stripsTypes())
    out.note(
      `Node ${process.versions.node} cannot run TypeScript by itself: compile it first, or put tsx before it.`,
    );
  out.note(
    "Next: set DATABASE_URL, then npx holdfast migrate, npx holdfast enqueue hello '{}', npx holdfast work",
  );
}

/** Level by level: Node's recursive way does not end where a folder cannot be made, as in /proc. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  makeFolder(dirname(folder));
  mkdirSync(folder);
}
