// The declarations that a package ships.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

/**
 * For users without @types/pg what comes from `pg` is `any` instead of an error. A namespace is imported the same way in
 * both module formats, with esModuleInterop and without.
 */
export function freeTypesOfPg(folder) {
  const line = /^import (?:type )?pg from 'pg';$/m;
  for (const name of readdirSync(folder, { recursive: true }).map(String)) {
    if (!name.endsWith('.d.ts')) continue;
    const text = readFileSync(join(folder, name), 'utf8');
    const free = text.replace(line, "// @ts-ignore\nimport type * as pg from 'pg';");
    if (free !== text) writeFileSync(join(folder, name), free);
  }
}

/** The comment on a value that a declaration file exports, by itself or from another file; null: it has none. */
export function docOf(file, name) {
  const text = readFileSync(file, 'utf8');
  const comment = String.raw`(/\*\*(?:(?!\*/)[\s\S])*\*/)`;
  const own = new RegExp(
    String.raw`${comment}\nexport (?:declare )?(?:const|function|(?:abstract )?class) ${name}\b`,
  ).exec(text);
  if (own) return own[1];
  for (const [, list, path] of text.matchAll(
    /^export \{([^}]*)\} from ['"](\.{1,2}\/[^'"]+)\.js['"]/gm,
  )) {
    const found = list.split(',').find((one) => one.trim().split(' as ').at(-1) === name);
    if (found) return docOf(`${resolve(dirname(file), path)}.d.ts`, found.trim().split(' as ')[0]);
  }
  return null;
}

/**
 * The declarations of the entries and of all that they import, from one folder into another. The compiler may write
 * `import("../internal.js").Name` for a type of another file: that file is named instead.
 */
export function copyTypes(from, entries, to) {
  const copies = new Map();
  const internal = new Map(
    exportsOf(join(from, 'internal.d.ts')).map(({ name, file }) => [name, file]),
  );
  const found = new Set(entries.map((name) => join(from, `${name}.d.ts`)));
  for (const file of found) {
    const text = readFileSync(file, 'utf8').replace(
      /import\("(?:\.{1,2}\/)+internal\.js"\)\.(\w+)/g,
      (_, name) => `import("${pathTo(dirname(file), join(from, internal.get(name)))}").${name}`,
    );
    for (const [, path] of text.matchAll(/['"](\.{1,2}\/[^'"]+)\.js['"]/g)) {
      const target = `${resolve(dirname(file), path)}.d.ts`;
      if (existsSync(target)) found.add(target);
    }
    const copy = join(to, relative(from, file));
    // What the file is about is for those who read its source; no editor shows it.
    copies.set(
      copy,
      text.replace(/^\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n(?=import |export (?:type )?\{)/, ''),
    );
  }
  dropStatements(copies);
  for (const [copy, text] of copies) {
    mkdirSync(dirname(copy), { recursive: true });
    writeFileSync(copy, text);
  }
}

/** SQL statements and what is made of them, which users cannot import. */
function dropStatements(copies) {
  const all = [...copies.values()].join('\n');
  for (const [copy, text] of copies)
    copies.set(
      copy,
      text.replace(
        /^(?:\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n)?export declare const (\w+): [^\n]*(?:\{\n(?:[ }][^\n]*\n)*?\}[^\n]*)?;\n/gm,
        (declared, name) => {
          const isStatement = declared.includes('.Statement<') || declared.includes(': Statement<');
          const isNamed = all.match(new RegExp(`\\b${name}\\b`, 'g')).length > 1;
          return isStatement && !isNamed ? '' : declared;
        },
      ),
    );
}

function pathTo(folder, file) {
  const path = relative(folder, file).replaceAll('\\', '/');
  return path.startsWith('.') ? path : `./${path}`;
}

/** What a declaration file exports from others. */
function exportsOf(file) {
  const lists = readFileSync(file, 'utf8').matchAll(
    /^export (?:type )?\{([^}]*)\} from '([^']+)'/gm,
  );
  return [...lists].flatMap(([, list, path]) =>
    list
      .split(',')
      .map((one) =>
        one
          .trim()
          .replace(/^type /, '')
          .split(' as ')
          .at(-1),
      )
      .filter((name) => name !== '')
      .map((name) => ({ name, file: path })),
  );
}

/**
 * Declarations of an entry that users do not import, and that declarations of our other packages name: all of it is `any`.
 * Its real types would be a fifth of what the package weighs.
 */
export function stubTypes(from, to) {
  const names = new Set(exportsOf(from).map(({ name }) => name));
  const lines = [...names]
    .sort()
    .flatMap((name) => [
      `export declare const ${name}: any;`,
      `export type ${name}<A = any, B = any, C = any> = any;`,
    ]);
  writeFileSync(to, `${lines.join('\n')}\n`);
}
