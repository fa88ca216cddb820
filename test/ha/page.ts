/**
 * The steps of docs/high-availability.md, run as they are printed. The first line of a block says on which machine
 * it runs; a test says which server that is.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { type Block, documentationBlocks } from '../support/doc-blocks.js';
import { until } from '../support/until.js';
import type { Output, Server, Site } from './postgres.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PAGE = join('docs', 'high-availability.md');
const blocks = documentationBlocks(ROOT).filter(({ page, info }) => page === PAGE && info === 'sh');

/** Those that no test has run: see the last test of each file. */
const followed = new Set<Block>();

const placeOf = ({ code }: Block) => /^# on (?:the )?([^,\n]+)/.exec(code)?.[1] ?? '';

/** By what the page calls it. */
export type Places = Readonly<Record<string, Server>>;

/**
 * The blocks of a section, one after the other, or the one with this number. `more` are the names that the page
 * uses, such as PRIMARY.
 */
export async function follow(
  section: string,
  places: Places,
  more: Readonly<Record<string, string>> = {},
  only?: number,
): Promise<Output[]> {
  const all = blocks.filter((block) => block.section === section);
  const wanted = only === undefined ? all : all.slice(only, only + 1);
  expect(wanted, `steps of "${section}"`).not.toEqual([]);
  const said: Output[] = [];
  for (const block of wanted) {
    const server = places[placeOf(block)];
    if (!server) throw new Error(`${PAGE}:${block.line}: which server is "${placeOf(block)}"?`);
    followed.add(block);
    said.push(await server.run(block.code, more));
  }
  return said;
}

/** `holdfast` as a user has it in his path. */
function commandFolder({ folder }: Site): string {
  const bin = join(folder, 'bin');
  mkdirSync(bin, { recursive: true });
  const main = join(ROOT, 'packages/holdfast/dist/cli.js');
  const text = `#!/bin/sh\nexec "${process.execPath}" "${main}" "$@"\n`;
  writeFileSync(join(bin, 'holdfast'), text, { mode: 0o755 });
  return bin;
}

/** The same on a machine that has no server, with the command of Holdfast. */
export async function followAnywhere(
  section: string,
  server: Server,
  more: Readonly<Record<string, string>> = {},
): Promise<Output[]> {
  const env = { ...server.env, ...more };
  env.PATH = `${commandFolder(server.site)}:${env.PATH}`;
  const said: Output[] = [];
  for (const block of blocks.filter((one) => one.section === section)) {
    expect(placeOf(block)).toBe('any machine');
    followed.add(block);
    said.push(await server.site.shell(block.code, env, true));
  }
  return said;
}

/** The doctor is content, within the half minute that the page gives it. */
export async function looksWell(server: Server, url: string): Promise<void> {
  let last: unknown;
  await until(
    'the doctor is content',
    () =>
      followAnywhere('After every change', server, { DATABASE_URL: url }).catch((error) => {
        last = error;
        return null;
      }),
    { timeoutMs: 60_000, everyMs: 1_000 },
  ).catch((cause) => {
    throw new Error(`the doctor is not content: ${(last as Error)?.message}`, { cause });
  });
}

/** The blocks of these sections that nobody followed. */
export const leftOut = (sections: readonly string[]): string[] =>
  blocks
    .filter((block) => sections.includes(block.section) && !followed.has(block))
    .map(({ line }) => `${PAGE}:${line}`);
