// `node scripts/release-notes.mjs VERSION`: prints what CHANGELOG.md says of a version. Ends with 1, and says why, if a package
// has another version or lacks its addresses, or the changelog has no section of it: then nothing should be published.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './root.mjs';

/** Throws a sentence. */
export function releaseNotes(version, changelog, manifests) {
  const other = manifests.find((one) => one.version !== version);
  if (other)
    throw new Error(
      `${other.name} has version ${other.version}, not ${version}. Nothing was printed.`,
    );
  for (const { name, private: isPrivate, ...manifest } of manifests) {
    const missing = ['repository', 'homepage', 'bugs'].filter((key) => !manifest[key]);
    if (!isPrivate && missing.length > 0)
      throw new Error(`package.json of ${name} lacks ${missing.join(', ')}. Nothing was printed.`);
  }
  const sections = changelog.split(/^## /m).slice(1);
  const notes = sections.find((section) => section.startsWith(`[${version}]`));
  const body = notes?.slice(notes.indexOf('\n')).trim();
  if (!body)
    throw new Error(
      `CHANGELOG.md has no section "## [${version}]" with notes. Give "Unreleased" that name, with a date, and tag again.`,
    );
  return body;
}

const read = (path) => readFileSync(join(ROOT, path), 'utf8');

if (process.argv[1]?.endsWith('release-notes.mjs')) {
  const [version = ''] = process.argv.slice(2);
  const manifests = readdirSync(join(ROOT, 'packages')).map((name) =>
    JSON.parse(read(`packages/${name}/package.json`)),
  );
  try {
    console.log(releaseNotes(version, read('CHANGELOG.md'), manifests));
  } catch (error) {
    console.error(`release-notes: ${error.message}`);
    process.exit(1);
  }
}
