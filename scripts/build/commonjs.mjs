// The packages for those who say `require`. Node loads ES modules with require, so what it gets is one line; the types say that the
// line is CommonJS, for TypeScript with `module: node16`. Jest cannot load ES modules: it gets a bundle of core and test kit,
// which stands in the package of the kit, where no server installs it.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { docOf } from './types.mjs';

/** The names that a declaration file exports, by hand or from others. */
function namesOf(text) {
  const lists = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, list]) =>
    list.split(',').map((one) =>
      one
        .trim()
        .replace(/^type /, '')
        .split(' as ')
        .at(-1),
    ),
  );
  const own = /^export (?:declare )?(?:const|function|class|interface|type) (\w+)/gm;
  return [...new Set([...lists, ...[...text.matchAll(own)].map(([, name]) => name)])].filter(
    Boolean,
  );
}

const isClass = (value) => typeof value === 'function' && /^class\b/.test(String(value));

/** `entries`: by the name of the file in dist, the file of its types in `types`. */
export async function writeCommonJs(dist, types, entries) {
  const folder = join(dist, 'cjs');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "type": "commonjs" }\n');
  for (const [name, declarations] of Object.entries(entries)) {
    const esm = await import(pathToFileURL(join(dist, `${name}.js`)).href);
    const file = join(types, `${declarations}.d.ts`);
    const from = relative(folder, file).replaceAll('\\', '/');
    const names = namesOf(readFileSync(file, 'utf8'));
    const values = names.filter((one) => one in esm);
    const only = names.filter((one) => !(one in esm));
    const path = JSON.stringify(from.replace(/\.d\.ts$/, '.js'));
    const mode = "with { 'resolution-mode': 'import' }";
    const lines = [
      `import type * as esm from ${path} ${mode};`,
      ...(only.length > 0 ? [`export type { ${only.join(', ')} } from ${path} ${mode};`] : []),
      // `typeof` takes no comment along, and editors show it.
      ...values.flatMap((one) => [
        ...[docOf(file, one) ?? []].flat(),
        `export declare const ${one}: typeof esm.${one};`,
      ]),
      ...values.filter((one) => isClass(esm[one])).map((one) => `export type ${one} = esm.${one};`),
    ];
    writeFileSync(join(folder, `${name}.d.ts`), `${lines.join('\n')}\n`);
    writeFileSync(join(folder, `${name}.js`), `module.exports = require('../${name}.js');\n`);
  }
}
