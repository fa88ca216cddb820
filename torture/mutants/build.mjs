// A build with a bug in it: a copy of the compiled core beside the torture, with some texts replaced. Only this harness makes it.
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeKeeperSource } from '../../scripts/keeper-source.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CORE = join(ROOT, 'packages/holdfast');

/** @param {Pick<import('./list.mjs').Mutant, 'patches' | 'name'>} mutant */
export async function buildMutant({ name, patches }) {
  const folder = join(ROOT, '.holdfast', 'mutants', name.replaceAll(/\W+/g, '-'));
  const dist = join(folder, 'dist');
  rmSync(folder, { recursive: true, force: true });
  cpSync(join(CORE, 'build'), dist, { recursive: true });
  // It is read as the product's own package is.
  cpSync(join(CORE, 'package.json'), join(folder, 'package.json'));
  for (const [file, replacements] of Object.entries(patches)) {
    const path = join(dist, file);
    let text = readFileSync(path, 'utf8');
    for (const [from, to] of replacements) {
      const parts = text.split(from);
      if (parts.length === 1)
        throw new Error(`mutant "${name}": ${file} has no text ${JSON.stringify(from)}`);
      text = parts.join(to);
    }
    writeFileSync(path, text);
  }
  // The keeper's thread has the bug, too.
  await writeKeeperSource(dist);
  return { dist, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
