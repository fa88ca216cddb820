/** What a hosted CI runs, and what a release says: every command exists, and notes come from the changelog. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const { releaseNotes } = await import(join(ROOT, 'scripts/release-notes.mjs'));
const { scripts, version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

interface Workflow {
  readonly jobs: Record<
    string,
    {
      readonly steps: readonly { readonly run?: string }[];
      readonly strategy?: { readonly matrix: Record<string, unknown> };
    }
  >;
}

test('every command of a workflow is a script of the package, or a file', () => {
  const folder = join(ROOT, '.github/workflows');
  const commands = readdirSync(folder).flatMap((name) => {
    const { jobs } = parse(readFileSync(join(folder, name), 'utf8')) as Workflow;
    return Object.values(jobs).flatMap(({ steps, strategy }) => {
      const runs = steps.flatMap(({ run }) => (run ? [run] : []));
      const named = (strategy?.matrix.run ?? []) as string[];
      return [...runs, ...named.map((one) => `npm run ${one}`)];
    });
  });
  const asked = commands.flatMap((text) => [...text.matchAll(/npm run ([a-z][\w:]*)/g)]);
  expect(asked.length).toBeGreaterThan(10);
  expect(asked.map(([, name]) => name).filter((name) => !((name as string) in scripts))).toEqual(
    [],
  );
  const files = commands.flatMap((text) => [...text.matchAll(/node (scripts\/[\w.-]+)/g)]);
  for (const [, file] of files) readFileSync(join(ROOT, file as string));
});

test('a release is refused without notes, with a package of another version, or without its addresses', () => {
  const log =
    '# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-11-19\n\n### Added\n\n- One.\n\n## [1.2.2]\n';
  const addresses = { repository: 'https://a.example', homepage: 'https://b.example', bugs: 'c' };
  const all = [{ name: 'holdfast', version: '1.2.3', ...addresses }];
  expect(releaseNotes('1.2.3', log, all)).toBe('### Added\n\n- One.');
  expect(() =>
    releaseNotes('1.2.2', log, [{ name: 'a', version: '1.2.2', private: true }]),
  ).toThrow(/no section/);
  expect(() => releaseNotes('1.2.4', log, all)).toThrow(
    /holdfast has version 1\.2\.3, not 1\.2\.4/,
  );
  const bare = [{ name: 'holdfast', version: '1.2.3', repository: 'https://a.example' }];
  expect(() => releaseNotes('1.2.3', log, bare)).toThrow(/holdfast lacks homepage, bugs/);
});

test('all packages have one version', () => {
  const folders = ['packages', 'apps'].flatMap((name) =>
    readdirSync(join(ROOT, name)).map((one) => join(ROOT, name, one, 'package.json')),
  );
  for (const file of folders) expect(JSON.parse(readFileSync(file, 'utf8')).version).toBe(version);
});
