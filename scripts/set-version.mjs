// `npm version 1.2.3 --no-git-tag-version`, which runs this, or `node scripts/set-version.mjs 1.2.3`: sets the version of all packages,
// wherever it is named. Without a version it takes that of package.json.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './root.mjs';

const VERSION = /^\d+\.\d+\.\d+(-[\w.]+)?$/;
const NUMBER = String.raw`\d+\.\d+\.\d+(?:-[\w.]+)?`;

/** What of a manifest names our version: its own, and the packages of ours that it asks for. */
const MANIFEST = `(?<=^  "version": "|^    "(?:@holdfast/[a-z]+|holdfast)": ")${NUMBER}(?=")`;
/** The same of the lockfile, where the packages of others have versions, too. */
const LOCKFILE = String.raw`(?<=^  "version": "|"name": "(?:@holdfast/[a-z]+|holdfast|holdfast-workspace)",\n      "version": "|^    "(?:packages|apps)/[a-z]+": \{\n      "version": "|^        "(?:@holdfast/[a-z]+|holdfast)": ")${NUMBER}(?=")`;
const SOURCE = `(?<=^export const VERSION = ')${NUMBER}(?=')`;
/** Of files that are made, and of the first line of a worker's log. */
const PAGE = String.raw`(?<=\bholdfast(?:-[a-z]+)?-|\bversion=)${NUMBER}(?=\.tgz|\n)`;

function patternsOf(root) {
  const folders = ['packages', 'apps'].flatMap((name) =>
    readdirSync(join(root, name)).map((one) => `${name}/${one}`),
  );
  return [
    ...['.', ...folders].map((folder) => [join(folder, 'package.json'), MANIFEST]),
    ['package-lock.json', LOCKFILE],
    ['packages/holdfast/src/job/options/version.ts', SOURCE],
    ...['testing', 'embedded', 'dashboard'].map((one) => [
      `packages/${one}/src/version.ts`,
      SOURCE,
    ]),
    ['docs/start.md', PAGE],
    ['docs/metrics.md', PAGE],
  ].map(([file, pattern]) => ({ file, pattern: new RegExp(pattern, 'gm') }));
}

/** The files that name the version, and what each of them says. */
export function placesOf(root) {
  return patternsOf(root).map(({ file, pattern }) => ({
    file,
    found: readFileSync(join(root, file), 'utf8').match(pattern) ?? [],
  }));
}

/** Throws a sentence. */
export function setVersion(root, version) {
  if (!VERSION.test(version))
    throw new Error(`"${version}" is no version such as 1.2.3. Nothing was written.`);
  for (const { file, pattern } of patternsOf(root)) {
    const path = join(root, file);
    writeFileSync(path, readFileSync(path, 'utf8').replace(pattern, version));
  }
}

if (process.argv[1]?.endsWith('set-version.mjs')) {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  try {
    setVersion(ROOT, process.argv[2] ?? version);
  } catch (error) {
    console.error(`set-version: ${error.message}`);
    process.exit(1);
  }
}
